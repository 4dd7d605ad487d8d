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
)

// board is all locks as one look saw them.
type board struct {
	locks []operator.Sighting
	mu    sync.Mutex
	by    map[operator.Order][]operator.Sighting
}

func (p *page) lookAtAll(ctx context.Context) (*board, error) {
	began := time.Now()
	locks, err := p.reader.All(ctx, "*")
	if err != nil {
		return nil, err
	}
	p.past.see(locks, true, began)
	return &board{locks: locks, by: make(map[operator.Order][]operator.Sighting)}, nil
}

// sorted sorts once for all viewers.
func (b *board) sorted(order operator.Order) []operator.Sighting {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by[order] == nil {
		b.by[order] = slices.Clone(b.locks)
		slices.SortStableFunc(b.by[order], order.Compare)
	}
	return b.by[order]
}

// counts are of some locks.
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

// query is what a viewer wants to see. The rows are few or many.
type query struct {
	Filter string
	Sort   operator.Order
	Many   bool
}

func queryOf(r *http.Request) query {
	q := query{Filter: strings.TrimSpace(r.FormValue("q")), Sort: operator.Order(r.FormValue("sort")), Many: r.FormValue("rows") != ""}
	if len(q.Filter) > maxFilter {
		q.Filter = strings.ToValidUTF8(q.Filter[:maxFilter], "")
	}
	if !q.Sort.Valid() {
		q.Sort = operator.ByWaiters
	}
	return q
}

// link is the address of the same view sorted by another column, or with many rows.
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

// By is the link of a column's head.
func (q query) By(order string) string { return q.link(operator.Order(order), q.Many) }

// Clear is the link without the filter.
func (q query) Clear() string { return query{}.link(q.Sort, q.Many) }

// More is the link to many rows.
func (q query) More() string { return q.link(q.Sort, true) }

func (q query) rows() int {
	if q.Many {
		return manyRows
	}
	return someRows
}

// fits reports whether the viewer wants to see a lock: its name matches the pattern, or the text is
// a part of its name or of its holder.
func (q query) fits(s *operator.Sighting) bool {
	switch {
	case q.Filter == "":
		return true
	case operator.IsPattern(q.Filter):
		return operator.Match(q.Filter, s.Names.Name)
	}
	return strings.Contains(s.Names.Name, q.Filter) || strings.Contains(operator.Owner(s.Holder), q.Filter)
}

// listing is the page of many locks.
type listing struct {
	frame
	query
	Pending bool // nothing was seen yet
	Rows    []operator.Sighting
	All     counts
	Found   counts // those that fit
	Rest    counts // those of them that are not shown
	Took    time.Duration
}

func (p *page) showList(w http.ResponseWriter, r *http.Request) {
	got := p.list.see(r.Context())
	l := listing{frame: p.frame("Locks"), query: queryOf(r), Pending: got.at.IsZero(), Took: got.took}
	l.Live, l.Trouble, l.At = true, trouble(got), got.at
	status := http.StatusOK
	switch {
	case got.what != nil:
		l.fill(got.what)
	case got.err != nil:
		status = http.StatusServiceUnavailable
	default:
		w.Header().Set("Refresh", "2")
	}
	send(w, status, "list", &l)
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
