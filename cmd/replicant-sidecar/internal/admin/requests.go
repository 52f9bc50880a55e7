package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// What the port changes: copies of tables, by POST, from this machine, and by a program that
// means it. A web page in a browser on this machine can send a POST to anybody, but not with a
// header of its own unless it is allowed to, and nobody is.

// RequestHeader must be there, with any value.
const RequestHeader = "X-Replicant-Request"

// RequestPath is below which requests are.
const RequestPath = "/snapshot/"

// Copies carries requests out; see pipeline.Pipeline.
type Copies interface {
	RequestCopy(ctx context.Context, tables []string, replace bool) ([]string, error)
	CancelCopy(ctx context.Context, tables []string) ([]string, error)
	PauseCopy(ctx context.Context, table string) error
	ResumeCopy(ctx context.Context, table string) error
}

// Answer is what a request is answered with: 200 when it holds and is durable, else Error says
// why not.
type Answer struct {
	Tables []string `json:"tables,omitempty"`
	Error  string   `json:"error,omitempty"`
}

const (
	requestTimeout = 30 * time.Second
	requestMax     = 64 << 10 // bytes of its form
)

var crossOrigin = http.NewCrossOriginProtection()

// mayRequest says why a request is not listened to; empty when it is.
func mayRequest(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	switch {
	case err != nil || ip == nil || !ip.IsLoopback():
		return "requests are taken from this machine alone"
	case !localName(r.Host):
		return "ask for localhost or a loopback address"
	case r.Header.Get(RequestHeader) == "", crossOrigin.Check(r) != nil:
		return "requests need the header " + RequestHeader + " and must not come from a web page"
	}
	return ""
}

func (s *Server) request(w http.ResponseWriter, r *http.Request) {
	if why := mayRequest(r); why != "" {
		tell(w, http.StatusForbidden, Answer{Error: why})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, requestMax)
	if err := r.ParseForm(); err != nil {
		tell(w, http.StatusBadRequest, Answer{Error: "the form cannot be read"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	tables, err := s.carryOut(ctx, strings.TrimPrefix(r.URL.Path, RequestPath), r.PostForm["table"], r.PostForm.Get("replace") == "true")
	var refused *pipeline.RefusedError
	switch {
	case err == nil:
		tell(w, http.StatusOK, Answer{Tables: tables})
	case errors.Is(err, errNoSuch):
		tell(w, http.StatusNotFound, Answer{Error: err.Error()})
	case errors.As(err, &refused):
		tell(w, http.StatusConflict, Answer{Error: err.Error()})
	default:
		tell(w, http.StatusGatewayTimeout, Answer{Error: err.Error()})
	}
}

var errNoSuch = errors.New("there is no such request")

func (s *Server) carryOut(ctx context.Context, what string, tables []string, replace bool) ([]string, error) {
	one := ""
	if len(tables) == 1 {
		one = tables[0]
	}
	copies := s.options.Copies
	switch {
	case copies == nil:
	case what == "start":
		return copies.RequestCopy(ctx, tables, replace)
	case what == "cancel":
		return copies.CancelCopy(ctx, tables)
	case len(tables) > 1:
		return nil, &pipeline.RefusedError{Text: "a copy is paused and resumed as a whole: name one table or none"}
	case what == "pause":
		return nil, copies.PauseCopy(ctx, one)
	case what == "resume":
		return nil, copies.ResumeCopy(ctx, one)
	}
	return nil, errNoSuch
}

func tell(w http.ResponseWriter, code int, a Answer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(a)
}
