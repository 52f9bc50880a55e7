package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// asked notes what it is asked for.
type asked struct{ calls []string }

func (a *asked) RequestCopy(_ context.Context, tables []string, replace bool) ([]string, error) {
	call := "start " + strings.Join(tables, "|")
	if replace {
		call += " replace"
	}
	a.calls = append(a.calls, call)
	if tables[0] == "no" {
		return nil, &pipeline.RefusedError{Text: "not published"}
	}
	return tables, nil
}

func (a *asked) CancelCopy(_ context.Context, tables []string) ([]string, error) {
	a.calls = append(a.calls, "cancel "+strings.Join(tables, "|"))
	return tables, pipeline.ErrUnanswered
}

func (a *asked) PauseCopy(_ context.Context, table string) error {
	a.calls = append(a.calls, "pause "+table)
	return nil
}

func (a *asked) ResumeCopy(_ context.Context, table string) error {
	a.calls = append(a.calls, "resume "+table)
	return nil
}

func post(path, form string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:9464"+path, strings.NewReader(form))
	r.RemoteAddr = "127.0.0.1:4711"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set(RequestHeader, "1")
	return r
}

func TestRequests(t *testing.T) {
	odd := `"a.b"."c""d"`
	for _, c := range []struct {
		path, form, call string
		code             int
		answer           Answer
	}{
		{"/snapshot/start", "table=" + url.QueryEscape(odd) + "&table=x&replace=true", "start " + odd + "|x replace", 200, Answer{Tables: []string{odd, "x"}}},
		{"/snapshot/start", "table=no", "start no", 409, Answer{Error: "not published"}},
		{"/snapshot/cancel", "table=x", "cancel x", 504, Answer{Error: pipeline.ErrUnanswered.Error()}},
		{"/snapshot/pause", "", "pause ", 200, Answer{}},
		{"/snapshot/resume", "table=x", "resume x", 200, Answer{}},
		{"/snapshot/pause", "table=x&table=y", "", 409, Answer{Error: "a copy is paused and resumed as a whole: name one table or none"}},
		{"/snapshot/drop", "table=x", "", 404, Answer{Error: "there is no such request"}},
		{"/snapshot/start?table=y", "table=%zz", "", 400, Answer{Error: "the form cannot be read"}},
	} {
		a := &asked{}
		s := &Server{options: Options{Copies: a}}
		w := httptest.NewRecorder()
		s.guard(s.routes()).ServeHTTP(w, post(c.path, c.form))
		require.Equal(t, c.code, w.Code, c.path)
		var got Answer
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		require.Equal(t, c.answer, got)
		require.Equal(t, c.call, strings.Join(a.calls, ","))
	}
}

// Nothing but a program on this machine, by a local name, changes anything.
func TestRequestsOfStrangersAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*http.Request){
		"another machine":  func(r *http.Request) { r.RemoteAddr = "10.0.0.7:4711" },
		"another name":     func(r *http.Request) { r.Host = "evil.example" },
		"no header":        func(r *http.Request) { r.Header.Del(RequestHeader) },
		"another site":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another origin":   func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"an opaque origin": func(r *http.Request) { r.Header.Set("Origin", "null") },
	} {
		for _, local := range []bool{true, false} {
			a := &asked{}
			s := &Server{options: Options{Copies: a}, local: local}
			r := post("/snapshot/start", "table=x")
			spoil(r)
			w := httptest.NewRecorder()
			s.guard(s.routes()).ServeHTTP(w, r)
			require.Equal(t, http.StatusForbidden, w.Code, name)
			require.Empty(t, a.calls, name)
		}
	}
	a := &asked{}
	s := &Server{options: Options{Copies: a}, local: true}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		r := post("/snapshot/start?table=x", "")
		r.Method = method
		w := httptest.NewRecorder()
		s.guard(s.routes()).ServeHTTP(w, r)
		require.Contains(t, []int{http.StatusMethodNotAllowed, http.StatusNotFound}, w.Code, method)
		require.Empty(t, a.calls)
	}
}
