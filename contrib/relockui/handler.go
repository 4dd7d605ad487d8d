package relockui

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/operator"
)

// Handler returns the page of the locks that locks makes: on one Redis, a Sentinel group, a Cluster, or a
// quorum, whichever client library it is over, and with its name prefix. With http.StripPrefix it can be
// served under any path. While the page has no viewer, no goroutine runs.
//
// The page reads over the client library of locks. Stats of locks does not count these reads. Close locks
// after the server.
//
// For a nil locks, one that relock.New did not make, or one of relocktest's Redis in memory, the page
// answers every request with status 500 and a text that says what is wrong.
func Handler(locks *relock.Client, opts ...Option) http.Handler {
	reader, err := operator.ReaderOf(locks)
	if err != nil {
		return broken("relockui: " + err.Error())
	}
	p := &page{
		settings: settings{ctx: context.Background(), log: slog.New(slog.DiscardHandler)},
		locks:    locks, reader: reader, past: history{locks: make(map[string]*record)}, views: make(map[string]*look[view]),
	}
	for _, option := range opts {
		option(&p.settings)
	}
	p.list = look[*board]{parent: p.ctx, read: p.lookAtAll}
	return p.routes()
}

// broken answers every request with status 500 and text.
func broken(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, text, http.StatusInternalServerError)
	})
}

// page is the state that all requests share.
type page struct {
	settings
	locks  *relock.Client
	reader *operator.Reader
	past   history
	list   look[*board]

	mu    sync.Mutex
	views map[string]*look[view] // of single locks, by name
}

func (p *page) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.showList)
	mux.HandleFunc("GET /lock", p.showLock)
	if p.force {
		mux.HandleFunc("GET /force", p.askToForce)
		mux.HandleFunc("POST /force", p.forceOpen)
	}
	mux.HandleFunc("GET /static/{file}", serveStatic)
	own := http.NewCrossOriginProtection()
	own.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.refuse(w, http.StatusForbidden, "This request came from another site.", "")
	}))
	guarded := own.Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		for name, value := range headers {
			header.Set(name, value)
		}
		if r.URL.Path == "" { // the prefix without a final slash, which relative links need
			at, _, _ := strings.Cut(r.RequestURI, "?")
			header.Set("Location", "./"+path.Base(at)+"/")
			w.WriteHeader(http.StatusMovedPermanently)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// headers are set in every answer. The referrer policy keeps names of locks, which are in URLs, from
// other sites.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; " +
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options": "nosniff",
	"X-Frame-Options":        "DENY",
	"Referrer-Policy":        "same-origin",
	"Cache-Control":          "no-store",
}

//go:embed static
var files embed.FS

// edition is a hash of the static files. It is in their URLs, so that browsers fetch a changed file.
var edition = func() string {
	sum := sha256.New()
	for _, name := range []string{"style.css", "script.js", "icon.svg"} {
		text, _ := files.ReadFile("static/" + name)
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}()

func serveStatic(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=86400")
	http.ServeFileFS(w, r, files, "static/"+r.PathValue("file"))
}

// frame has the data that every page shows.
type frame struct {
	Title   string
	Label   string
	Edition string
	Live    bool      // the script refreshes the page
	Trouble string    // why the data may be old or missing
	At      time.Time // when the data was read
}

func (p *page) frame(title string) frame {
	return frame{Title: title, Label: p.label, Edition: edition}
}

// send sends a page.
func send(w http.ResponseWriter, status int, c content) { put(w, status, render(c)) }

func put(w http.ResponseWriter, status int, page []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page) // the viewer may have left
}

// message is a page with only a text.
type message struct {
	frame
	Text string
	Lock string // name of a lock to link to, or ""
}

// refuse sends a message in place of the page that was asked for. lock may be "".
func (p *page) refuse(w http.ResponseWriter, status int, text, lock string) {
	send(w, status, &message{frame: p.frame(http.StatusText(status)), Text: text, Lock: lock})
}

// trouble returns the text for the error of the last look, "" if it went well.
func trouble[T any](s seen[T]) string {
	if s.err == nil {
		return ""
	}
	return "Redis cannot be read: " + cmp.Or(s.err.Error(), "no answer")
}
