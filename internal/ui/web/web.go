package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/a-h/templ"
)

// Config configures the pages.
type Config struct {
	Source Source
	// Details has the pages of nodes, applications and events; nil: the server has none of them.
	Details Details
	// Cluster is the name in the heading; empty: the pages show none.
	Cluster string
	// Keep is how long the plots reach back; 0: 25 h.
	Keep time.Duration
	// Retry is the pause after the source was away; 0: 5 s.
	Retry time.Duration
	// Now returns the time; nil: time.Now. It is for tests of pages with generated data.
	Now func() time.Time
	Log *slog.Logger // nil: nothing is logged
}

// Server serves the pages.
type Server struct {
	source  Source
	details Details
	// pastReads has a slot for each long read of the past.
	pastReads chan struct{}
	cluster   string
	now       func() time.Time
	log       *slog.Logger
	store     *store
	reader    reader
	hub       hub
	cache     cache
	windows   windows
	sparks    sparks
	mux       *http.ServeMux
	assets    map[string]asset
	alive     chan struct{} // receives a value when the loop takes it
}

//go:embed assets
var files embed.FS

// asset is a file of the pages. Its address has its digest, so that browsers may keep it.
type asset struct {
	path, kind string
	data       []byte
}

// New returns a Server. Its Run must run for the pages to have data.
func New(c Config) *Server {
	s := &Server{source: c.Source, details: c.Details, pastReads: make(chan struct{}, pastReads), cluster: c.Cluster, now: c.Now, log: c.Log, mux: http.NewServeMux(), assets: map[string]asset{}, alive: make(chan struct{})}
	keep := c.Keep
	if keep <= 0 {
		keep = 25 * time.Hour
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.store = newStore(keep)
	s.reader = reader{c.Source, s.store, c.Retry, s.now, s.log}
	if c.Retry <= 0 {
		s.reader.retry = 5 * time.Second
	}
	for name, kind := range map[string]string{
		"style.css": "text/css; charset=utf-8", "script.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		s.asset(name, kind)
	}
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/pools", http.StatusFound) })
	s.mux.HandleFunc("GET /pools", s.serveFleet)
	s.mux.HandleFunc("GET /pools/{cluster}/{pool}", s.servePool)
	s.mux.HandleFunc("GET /pools/{cluster}/{pool}/ticks/{at}", s.serveTick)
	d := detailPages{s}
	for path, make := range map[string]func(context.Context, *http.Request, Name, *listView) error{
		"/nodes": d.nodeList, "/nodes/{node}": d.nodePage, "/apps": d.appList, "/apps/{app}": d.appPage,
	} {
		s.mux.HandleFunc("GET /pools/{cluster}/{pool}"+path, d.detail(make))
	}
	s.mux.HandleFunc("GET /pools/{cluster}/{pool}/events", toPool(d.detail(d.eventPage)))
	s.mux.HandleFunc("GET /events", s.serveEvents)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.problem(w, r, http.StatusNotFound, "This page does not exist", "Open the fleet, and choose a pool.")
	})
	return s
}

// Run reads the source and follows it until ctx ends. It returns after everything that it started has returned.
func (s *Server) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { s.publish(ctx) })
	defer wg.Wait()
	return s.reader.run(ctx)
}

// Alive returns nil if the loop of Run responds before ctx ends.
func (s *Server) Alive(ctx context.Context) error {
	select {
	case s.alive <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the loop of the pages does not respond: %w", context.Cause(ctx))
	}
}

// asset registers a file of the folder assets.
func (s *Server) asset(name, kind string) {
	data, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // the file is part of the program
	}
	sum := sha256.Sum256(data)
	a := asset{"/assets/" + hex.EncodeToString(sum[:6]) + "/" + name, kind, data}
	s.assets[name] = a
	s.mux.HandleFunc("GET "+a.path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		s.respond(w, r, http.StatusOK, a.kind, a.data)
	})
}

// policy is the content security policy: only files of this server, no inline style or script, no frame.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types weir"

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the pages only read; use the commands or the API to change a pool", http.StatusMethodNotAllowed)
		return
	}
	const maxQuery = 2048
	if len(r.URL.RawQuery) > maxQuery || len(r.URL.Path) > maxQuery {
		http.Error(w, "this address is too long", http.StatusRequestURITooLong)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// respond writes a body, compressed if the client accepts it.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, code int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Vary", "Accept-Encoding")
	const worthwhile = 1 << 10
	if len(body) >= worthwhile && acceptsGzip(r) {
		packed, err := pack(body)
		if err != nil {
			s.log.Error("cannot compress a page", "err", err)
		} else {
			s.packed(w, code, packed)
			return
		}
	}
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may be gone
}

// packed writes a compressed body.
func (s *Server) packed(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Encoding", "gzip")
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may be gone
}

func acceptsGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// pack compresses a body.
func pack(body []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, 4)
	if err == nil {
		_, err = io.Copy(z, bytes.NewReader(body))
	}
	if err == nil {
		err = z.Close()
	}
	return b.Bytes(), err
}

// render returns the markup of a component.
func render(ctx context.Context, c templ.Component) ([]byte, error) {
	var b bytes.Buffer
	err := c.Render(ctx, &b)
	return b.Bytes(), err
}

// page writes a component as a page.
func (s *Server) page(w http.ResponseWriter, r *http.Request, code int, c templ.Component) {
	body, err := render(r.Context(), c)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			s.log.Error("cannot render a page", "path", r.URL.Path, "err", err)
		}
		http.Error(w, "this page cannot be rendered; the log of the server has the cause", http.StatusInternalServerError)
		return
	}
	s.respond(w, r, code, "text/html; charset=utf-8", body)
}

// problem writes a page with an explanation.
func (s *Server) problem(w http.ResponseWriter, r *http.Request, code int, title, why string) {
	s.page(w, r, code, problemPage(s.frame(title, nil), title, why))
}

// frame returns what all pages have.
func (s *Server) frame(title string, crumbs []crumb) frame {
	f := frame{
		Title: title, Style: s.assets["style.css"].path, Script: s.assets["script.js"].path, Icon: s.assets["icon.svg"].path,
		Crumbs: append([]crumb{{"Weirkeeper", "/pools"}}, crumbs...),
	}
	if s.cluster != "" {
		f.Crumbs = append([]crumb{{"Weirkeeper", "/pools"}, {s.cluster, "/pools"}}, crumbs...)
	}
	if len(crumbs) == 0 {
		f.Crumbs[len(f.Crumbs)-1].Href = ""
	}
	if why, since := s.store.awayNow(); why != "" {
		f.Away = why
		if !since.IsZero() {
			f.AwaySince = since.UTC().Format(time.TimeOnly) + " UTC"
		}
	}
	return f
}
