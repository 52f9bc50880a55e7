package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// lineMax is the longest line that is passed on whole, in bytes. What is longer is
	// cut, so that a flood without a line break takes no more memory than this.
	lineMax = 8 << 10
	// finishMax is how long the rest of the output is waited for: a process that left the
	// group may hold the pipe open for ever.
	finishMax = time.Second
)

// output passes one stream on, line by line.
type output struct {
	read, write *os.File
	to          io.Writer
	prefix      string
	done        chan struct{}
}

func newOutput(to io.Writer, prefix string) (*output, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &output{read: r, write: w, to: to, prefix: prefix, done: make(chan struct{})}, nil
}

// abandon closes both ends of a stream that was never started.
func (o *output) abandon() {
	_ = o.read.Close()
	_ = o.write.Close()
}

// start passes lines on until every holder of the write end is gone.
func (o *output) start() {
	_ = o.write.Close() // the child has its own
	go func() {
		defer close(o.done)
		defer o.read.Close()
		o.copy()
	}()
}

// finish waits for the rest and then stops reading.
func (o *output) finish() {
	_ = o.read.SetReadDeadline(time.Now().Add(finishMax))
	select {
	case <-o.done:
	case <-time.After(2 * finishMax): // our own output is blocked; the reader is left to it
	}
}

func (o *output) copy() {
	in := bufio.NewReaderSize(o.read, lineMax)
	line := make([]byte, 0, len(o.prefix)+lineMax+64)
	for {
		piece, err := in.ReadSlice('\n')
		line = append(append(line[:0], o.prefix...), piece...)
		if errors.Is(err, bufio.ErrBufferFull) {
			cut := 0
			for errors.Is(err, bufio.ErrBufferFull) {
				piece, err = in.ReadSlice('\n')
				cut += len(piece)
			}
			line = fmt.Appendf(line, " ... (%d bytes cut)\n", cut)
			piece = line
		}
		if len(piece) > 0 {
			if line[len(line)-1] != '\n' {
				line = append(line, '\n')
			}
			_, _ = o.to.Write(line) // nobody to tell, and the child must not stall
		}
		if err != nil {
			return
		}
	}
}
