package relockui

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/operator"
)

const (
	someRows  = 100
	manyRows  = 1000
	maxFilter = 256 // bytes
	maxPages  = 100 // rendered pages of one look that are kept for further viewers
)

// board has all locks as one look saw them.
type board struct {
	locks []operator.Sighting

	mu    sync.Mutex                             // guards the fields below
	by    map[operator.Order][]operator.Sighting // sorted copies of locks
	pages map[query]func() []byte                // render a page once
}

func (p *page) lookAtAll(ctx context.Context) (*board, error) {
	began := time.Now()
	locks, err := p.reader.All(ctx, "*")
	if err != nil {
		return nil, err
	}
	p.past.see(locks, true, began)
	by, pages := make(map[operator.Order][]operator.Sighting), make(map[query]func() []byte)
	return &board{locks: locks, by: by, pages: pages}, nil
}

// sorted returns the locks in an order. It sorts them once for all viewers.
func (b *board) sorted(order operator.Order) []operator.Sighting {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by[order] == nil {
		b.by[order] = slices.Clone(b.locks)
		slices.SortStableFunc(b.by[order], order.Compare)
	}
	return b.by[order]
}

// page returns the page for a query. It renders it once for all viewers with the same query.
func (b *board) page(q query, render func() []byte) []byte {
	b.mu.Lock()
	page := b.pages[q]
	if page == nil {
		page = sync.OnceValue(render)
		if len(b.pages) < maxPages {
			b.pages[q] = page
		}
	}
	b.mu.Unlock()
	return page()
}

// counts sums up some locks.
type counts struct {
	Locks, Contended, Waiters int
	Longest                   time.Duration
}

func (c *counts) add(s *operator.Sighting) {
	c.Locks++
	if s.Waiters > 0 {
		c.Contended++
	}
	c.Waiters += s.Waiters
	c.Longest = max(c.Longest, s.Longest)
}

// query is what a viewer wants to see.
type query struct {
	Filter string
	Sort   operator.Order
	Many   bool // manyRows, else someRows
}

func queryOf(r *http.Request) query {
	q := query{Filter: strings.TrimSpace(r.FormValue("q")), Sort: operator.Order(r.FormValue("sort"))}
	q.Many = r.FormValue("rows") != ""
	if len(q.Filter) > maxFilter {
		q.Filter = strings.ToValidUTF8(q.Filter[:maxFilter], "")
	}
	if !q.Sort.Valid() {
		q.Sort = operator.ByWaiters
	}
	return q
}

// link returns the URL of the list with the same filter, in an order, and with many rows or not.
func (q query) link(order operator.Order, many bool) string {
	values := url.Values{"sort": {string(order)}}
	if q.Filter != "" {
		values.Set("q", q.Filter)
	}
	if many {
		values.Set("rows", strconv.Itoa(manyRows))
	}
	return "./?" + values.Encode()
}

func (q query) rows() int {
	if q.Many {
		return manyRows
	}
	return someRows
}

// fits reports whether the filter lets a lock through. A filter that is a pattern must match the name.
// Other text must be a part of the name or of the holder.
func (q query) fits(s *operator.Sighting) bool {
	switch {
	case q.Filter == "":
		return true
	case operator.IsPattern(q.Filter):
		return operator.Match(q.Filter, s.Names.Name)
	}
	for _, text := range []string{s.Names.Name, s.Holder, s.By.String()} {
		if strings.Contains(text, q.Filter) {
			return true
		}
	}
	return false
}

// listing is the page that lists the locks.
type listing struct {
	frame
	query
	Pending bool // no look has succeeded yet
	Rows    []operator.Sighting
	All     counts
	Found   counts // locks that fit the filter
	Rest    counts // locks that fit it and are not in Rows
}

func (p *page) showList(w http.ResponseWriter, r *http.Request) {
	got, q := p.list.see(r.Context()), queryOf(r)
	show := func() []byte { return render(p.listing(got, q)) }
	switch {
	case got.what != nil && got.err == nil:
		put(w, http.StatusOK, got.what.page(q, show))
	case got.what != nil:
		put(w, http.StatusOK, show())
	case got.err != nil:
		put(w, http.StatusServiceUnavailable, show())
	default:
		w.Header().Set("Refresh", "2")
		put(w, http.StatusOK, show())
	}
}

func (p *page) listing(got seen[*board], q query) *listing {
	l := &listing{frame: p.frame("Locks"), query: q, Pending: got.at.IsZero()}
	l.Live, l.Trouble, l.At = true, trouble(got), got.at
	if got.what != nil {
		l.fill(got.what)
	}
	return l
}

func (l *listing) fill(b *board) {
	locks, rows := b.sorted(l.Sort), l.rows()
	for i := range locks {
		s := &locks[i]
		l.All.add(s)
		if !l.fits(s) {
			continue
		}
		l.Found.add(s)
		if len(l.Rows) < rows {
			l.Rows = append(l.Rows, *s)
		} else {
			l.Rest.add(s)
		}
	}
}
