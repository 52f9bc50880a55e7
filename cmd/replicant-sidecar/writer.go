package main

import (
	"io"
	"os"
	"sync"
)

// sharedWriter lets several goroutines write whole lines to one stream.
type sharedWriter struct {
	mu *sync.Mutex
	io.Writer
}

// output is one lock for standard output and standard error: on a terminal they meet.
var output sync.Mutex

// shared makes w safe for several writers. A file is left as it is: what asks whether it
// is a terminal must still see it, and one Write is one system call.
func shared(w io.Writer) io.Writer {
	if _, ok := w.(*os.File); ok {
		return w
	}
	return &sharedWriter{&output, w}
}

func (s *sharedWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Writer.Write(p)
}
