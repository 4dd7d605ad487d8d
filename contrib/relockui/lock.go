package relockui

import (
	"context"
	"net/http"
	"time"

	"github.com/relock-go/relock/internal/operator"
)

// maxViews is how many locks may have a look that their viewers share.
const maxViews = 1000

// view is a lock as one look saw it.
type view struct {
	operator.Sighting
	Queue    []operator.Waiter
	Reserved int64 // the last fencing token
}

// viewOf returns the lock's look: the reading of Redis that all its viewers share. At maxViews locks it
// forgets all looks. A viewer goes on with a forgotten one, which later viewers do not share.
func (p *page) viewOf(name string) *look[view] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.views[name]; v != nil {
		return v
	}
	if len(p.views) >= maxViews {
		clear(p.views)
	}
	v := &look[view]{parent: p.ctx, read: func(ctx context.Context) (view, error) { return p.lookAt(ctx, name) }}
	p.views[name] = v
	return v
}

func (p *page) lookAt(ctx context.Context, name string) (view, error) {
	began := time.Now()
	s, err := p.reader.One(ctx, name)
	if err != nil {
		return view{}, err
	}
	v := view{Sighting: s}
	if v.Queue, v.Reserved, err = p.reader.Line(ctx, s.Names); err != nil {
		return view{}, err
	}
	p.past.see([]operator.Sighting{s}, false, began)
	return v, nil
}

// single is the page of one lock.
type single struct {
	frame
	view
	Name    string
	Force   bool
	Pending bool
	Past    []period
	Rest    int // waiters that are not shown
}

func (p *page) showLock(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if _, err := p.reader.Names(name); err != nil {
		p.refuse(w, http.StatusNotFound, "There is no such lock: "+err.Error(), "")
		return
	}
	got := p.viewOf(name).see(r.Context())
	s := single{frame: p.frame(operator.Plain(name)), view: got.what, Name: name, Force: p.force, Pending: got.at.IsZero()}
	s.Live, s.Trouble, s.At = true, trouble(got), got.at
	s.Past, s.Rest = p.past.of(name), max(0, s.Waiters-len(s.Queue))
	status := http.StatusOK
	switch {
	case !s.Pending:
	case got.err != nil:
		status = http.StatusServiceUnavailable
	default:
		w.Header().Set("Refresh", "2")
	}
	send(w, status, &s)
}
