// Package admin is the sidecar's HTTP port: probes for a supervisor, metrics, a status
// for programs and a page for people, and it takes requests about copies of tables.
//
//	/livez    200 while the program's own loop answers. Says nothing of Postgres or the
//	          sink: a restart would not bring either back.
//	/startedz 200 once the configuration is valid and this port is up. Never needs the
//	          sink, which may start after us.
//	/readyz   200 while the sink is connected and the durable position moves, or has
//	          nothing left to do. ?verbose says why; ?standby=ok counts a standby as ready.
//	/metrics  Prometheus.
//	/statusz  JSON, see Report.
//	/         the same for people.
//	/snapshot/start, pause, resume, cancel  by POST from this machine, see Answer.
//	/debug/pprof  only where Options.Pprof is set.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// Options is what the port shows.
type Options struct {
	// Listen is host:port.
	Listen string
	Pprof  bool
	// Status is read for every answer.
	Status func() pipeline.Status
	// Copies carries out requests; nil takes none.
	Copies Copies
	// Alive asks the program's own loop for a sign of life.
	Alive func(ctx context.Context) error
	// ProgressDeadline is how long the durable position may stand still with work waiting
	// before the sidecar counts as not ready.
	ProgressDeadline time.Duration
	// Version is shown and told as a metric.
	Version  string
	Registry *prometheus.Registry
	Logger   *slog.Logger
}

// Server is the running port.
type Server struct {
	options  Options
	listener net.Listener
	http     *http.Server
	local    bool
	started  time.Time
	done     chan struct{}
}

const (
	headerTimeout = 5 * time.Second
	writeTimeout  = 2 * time.Minute // a CPU profile takes its time
	aliveTimeout  = 5 * time.Second
)

// Start listens and serves. The error says why the address cannot be used.
func Start(o Options) (*Server, error) {
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	address, _ := listener.Addr().(*net.TCPAddr)
	s := &Server{
		options: o, listener: listener, started: time.Now(), done: make(chan struct{}),
		local: address != nil && address.IP.IsLoopback(),
	}
	if err := o.Registry.Register(newCollector(o.Status, o.Version)); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.http = &http.Server{
		Handler: s.guard(s.routes()), ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: writeTimeout, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener) // ErrServerClosed
	}()
	return s, nil
}

// URL is where the port is.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Loopback reports whether only this machine can reach the port.
func (s *Server) Loopback() bool { return s.local }

// Close lets answers under way finish for a moment, and stops.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	<-s.done
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", s.livez)
	mux.HandleFunc("/startedz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "started") })
	mux.HandleFunc("/readyz", s.readyz)
	mux.HandleFunc("/statusz", s.statusz)
	mux.Handle("/metrics", promhttp.HandlerFor(s.options.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("POST "+RequestPath, s.request)
	mux.HandleFunc("/{$}", s.page)
	if s.options.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	}
	return mux
}

// guard lets reading methods through, and requests to where they are judged. On loopback it also asks for a local name, so
// that a web page in a browser on this machine cannot read the port under its own name.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		switch {
		case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, RequestPath):
			next.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			answer(w, http.StatusMethodNotAllowed, "this port only reads")
		case s.local && !localName(r.Host):
			answer(w, http.StatusForbidden, "ask for localhost or a loopback address")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if len(host) > 2 && host[0] == '[' {
		host = host[1 : len(host)-1]
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}

func (s *Server) livez(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), aliveTimeout)
	defer cancel()
	if err := s.options.Alive(ctx); err != nil {
		answer(w, http.StatusServiceUnavailable, "the program's loop does not answer")
		return
	}
	answer(w, http.StatusOK, "alive")
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	ready, why := Ready(s.options.Status(), time.Now(), s.options.ProgressDeadline, query.Get("standby") == "ok")
	code, word := http.StatusOK, "ready"
	if !ready {
		code, word = http.StatusServiceUnavailable, "not ready"
	}
	if query.Has("verbose") {
		word += ": " + why
	}
	answer(w, code, word)
}
