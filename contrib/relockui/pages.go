package relockui

import (
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/wire"
)

// content is a page's data, which writes what stands in the frame.
type content interface {
	around() *frame
	main(*sheet)
}

func (f *frame) around() *frame { return f }

// render returns a page.
func render(c content) []byte {
	s, f := new(sheet), c.around()
	s.put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s · relock</title>
<link rel="icon" type="image/svg+xml" href="static/icon.svg?%s">
<link rel="stylesheet" href="static/style.css?%s">
`, f.Title, f.Edition, f.Edition)
	if f.Live {
		s.put(`<script src="static/script.js?%s" defer></script>
`, f.Edition)
	}
	s.put(`</head>
<body>
<header>
<a class="brand" href="./"><img src="static/icon.svg?%s" alt="" width="22" height="22"> relock</a>
`, f.Edition)
	if f.Label != "" {
		s.put(`<span class="label">%s</span>
`, f.Label)
	}
	if f.Live {
		s.put(`<span class="refresh">
<span id="seen" data-live>`)
		if !f.At.IsZero() {
			s.put(`as of <time datetime="%s">%s UTC</time>`, stamp(f.At), clock(f.At))
		}
		s.put(`</span>
<button type="button" id="pause" hidden>Pause</button>
<noscript><a href="">Refresh</a></noscript>
</span>
`)
	}
	s.put(`</header>
<main>
`)
	if f.Live {
		s.put(`<div id="trouble" data-live>`)
		if f.Trouble != "" {
			s.put(`<p class="trouble" role="alert">%s`, f.Trouble)
			s.either(f.At.IsZero(), "", " What is shown is older.")
			s.put(`</p>`)
		}
		s.put(`</div>
<p class="trouble" id="gone" role="alert" hidden>This page's server does not answer. What is shown is older.</p>
`)
	}
	c.main(s)
	s.put(`</main>
</body>
</html>
`)
	return s.text.Bytes()
}

// column is a column's head, and whether numbers stand below it.
type column struct {
	head   markup
	number bool
}

// table begins a table: the caller writes its rows.
func (s *sheet) table(class, caption markup, columns ...column) {
	s.put(`<div class="wide">
<table class="` + class + `" role="table">
<caption class="aside">` + caption + `</caption>
<thead role="rowgroup"><tr role="row">`)
	for _, c := range columns {
		s.put(`<th role="columnheader" scope="col"`)
		s.either(c.number, ` class="number">`, `>`)
		s.put(c.head + `</th>`)
	}
	s.put(`</tr></thead>
<tbody role="rowgroup">
`)
}

func (s *sheet) endTable() {
	s.put(`</tbody>
</table>
</div>
`)
}

// owner writes the rest of a cell's tag and its text: a client by its name, with the owner field as the title, or the field.
func (s *sheet) owner(field string, by wire.Card) {
	if by.Name != "" {
		s.put(` title="%s"`, operator.Plain(field))
	}
	s.put(`>%s`, operator.Owner(field, by))
}

func (l *listing) main(s *sheet) {
	s.put(`<h1 class="aside">Locks</h1>
<dl class="tiles" id="tiles" data-live>
`)
	l.tile(s, "Locks", false, count(l.All.Locks))
	l.tile(s, "With waiters", l.All.Contended > 0, count(l.All.Contended))
	l.tile(s, "Waiters", l.All.Waiters > 0, count(l.All.Waiters))
	longest := "–"
	if l.All.Waiters > 0 {
		longest = operator.Short(l.All.Longest)
	}
	s.put(`<div><dt>Longest wait</dt><dd>%s</dd></div>
</dl>
`, longest)
	l.form(s)
	s.put(`<div class="wide">
<table class="locks" role="table">
<caption class="aside">Locks that are held or waited for, by %s</caption>
<thead role="rowgroup">
<tr role="row">
`, l.Sort)
	l.head(s, operator.ByName, "ascending", `>`, "Name")
	l.head(s, operator.ByWaiters, "descending", ` class="number">`, "Waiters")
	s.put(`<th role="columnheader" scope="col" class="number">Longest wait</th>
`)
	l.head(s, operator.ByAge, "descending", ` class="number">`, "Held for")
	s.put(`<th role="columnheader" scope="col" class="number">TTL</th>
<th role="columnheader" scope="col">Holder</th>
<th role="columnheader" scope="col">Kind</th>
</tr>
</thead>
<tbody role="rowgroup" id="rows" data-live>
`)
	for i := range l.Rows {
		row(s, &l.Rows[i])
	}
	s.endTable()
	s.put(`<div id="rest" data-live>
`)
	l.rest(s)
	s.put(`</div>
`)
}

func (l *listing) tile(s *sheet, what markup, hot bool, value string) {
	s.either(hot, `<div class="hot">`, `<div>`)
	if l.Pending {
		value = "…"
	}
	s.put(`<dt>`+what+`</dt><dd>%s</dd></div>
`, value)
}

func (l *listing) form(s *sheet) {
	s.put(`<form class="filter" role="search" action="./" method="get">
<label for="q">Filter</label>
<input id="q" name="q" type="search" value="%s" maxlength="256" placeholder="order:*  or a part of a name or holder" autocomplete="off" spellcheck="false" autocapitalize="off">
<label for="sort">Sort by</label>
<select id="sort" name="sort">
`, l.Filter)
	for _, order := range []operator.Order{operator.ByWaiters, operator.ByAge, operator.ByName} {
		s.put(`<option value="%s"`, order)
		s.either(order == l.Sort, ` selected>`, `>`)
		s.put(`%s</option>
`, order)
	}
	s.put(`</select>
`)
	if l.Many {
		s.put(`<input type="hidden" name="rows" value="%s">
`, manyRows)
	}
	s.put(`<button>Show</button>
`)
	if l.Filter != "" {
		s.put(`<a href="%s">Clear</a>
`, query{}.link(l.Sort, l.Many))
	}
	s.put(`</form>
`)
}

// head writes the head of a column that sorts.
func (l *listing) head(s *sheet, order operator.Order, direction, class, what markup) {
	s.put(`<th role="columnheader" scope="col"`)
	if l.Sort == order {
		s.put(` aria-sort="` + direction + `"`)
	}
	s.put(class+`<a href="%s">`+what+`</a></th>
`, l.link(order, l.Many))
}

func row(s *sheet, lock *operator.Sighting) {
	s.either(lock.Waiters > 0, `<tr role="row" class="hot">`, `<tr role="row">`)
	s.put(`
<th role="rowheader" scope="row" class="name"><a href="%s">%s</a></th>
<td role="cell" class="number waiters" data-label="Waiters">%s</td>
<td role="cell" class="number" data-label="Longest">%s</td>
<td role="cell" class="number" data-label="Held for">%s</td>
<td role="cell" class="number" data-label="TTL">%s</td>
<td role="cell" class="holder" data-label="Holder"`, linkTo("lock", lock.Names.Name), operator.Plain(lock.Names.Name),
		count(lock.Waiters), lock.WaitText(), lock.AgeText(), lock.TTLText())
	if lock.By.Name != "" {
		s.put(` title="%s"`, operator.Plain(lock.Holder))
	}
	s.put(`>%s</td>
<td role="cell" class="kind" data-label="Kind">%s</td>
</tr>
`, lock.HolderText(), lock.Kind)
}

// rest says how many locks the table shows, and how many it does not.
func (l *listing) rest(s *sheet) {
	switch {
	case l.Pending && l.Trouble != "":
		return
	case l.Pending:
		s.put(`<p class="rest">Redis is being read …`)
	case l.All.Locks == 0:
		s.put(`<p class="rest">Nobody holds a lock.`)
	case l.Found.Locks == 0:
		s.put(`<p class="rest">No lock of %s fits the filter.`, count(l.All.Locks))
	default:
		s.put(`<p class="rest">%s of %s locks`, count(len(l.Rows)), count(l.Found.Locks))
		s.either(l.Filter != "", ` that fit`, ``)
		if l.Rest.Locks > 0 {
			waiters := "no"
			if l.Rest.Waiters > 0 {
				waiters = count(l.Rest.Waiters)
			}
			s.put(`. The other %s have %s waiters; `, count(l.Rest.Locks), waiters)
			if l.Many {
				s.put(`a filter finds them`)
			} else {
				s.put(`<a href="%s">show up to 1,000</a>`, l.link(l.Sort, true))
			}
		}
		s.put(`.`)
	}
	s.put(`</p>
`)
}

func (l *single) main(s *sheet) {
	s.put(`<nav><a href="./">All locks</a></nav>
<h1 class="title">%s</h1>
<div id="state" data-live>
`, operator.Plain(l.Name))
	switch {
	case !l.Pending:
		l.state(s)
	case l.Trouble == "":
		s.put(`<p class="rest">Redis is being read …</p>
`)
	}
	s.put(`</div>
<section aria-labelledby="queue-title">
<h2 id="queue-title">Queue</h2>
<div id="queue" data-live>
`)
	l.queue(s)
	s.put(`</div>
</section>
<section aria-labelledby="past-title">
<h2 id="past-title">History</h2>
<p class="rest">What this page has seen since its server started. A grant between two looks is not seen.</p>
<div id="past" data-live>
`)
	l.past(s)
	s.put(`</div>
</section>
`)
}

// state writes the badges, the facts and the holders.
func (l *single) state(s *sheet) {
	s.put(`<p class="state">`)
	switch {
	case l.Held:
		s.put(`<span class="badge held">held</span>`)
	case l.Nodes > 0:
		s.put(`<span class="badge free">no quorum</span>`)
	default:
		s.put(`<span class="badge free">free</span>`)
	}
	if l.Waiters > 0 {
		s.put(`
<span class="badge hot">%s waiting</span>`, count(l.Waiters))
	}
	if l.Kind != "" {
		s.put(`
<span class="badge">%s</span>`, l.Kind)
	}
	s.put(`</p>
`)
	l.facts(s)
	if l.Semaphore() {
		l.holders(s)
	} else {
		l.readers(s)
	}
	if l.Force && (l.Held || l.Nodes > 0) {
		s.put(`<p><a class="danger" href="%s">Force unlock …</a></p>
`, linkTo("force", l.Name))
	}
}

// facts lists what is known of the lock.
func (l *single) facts(s *sheet) {
	s.put(`<dl class="facts">
<div class="whole"><dt>Holder</dt><dd class="code">%s</dd>`, l.HolderText())
	if l.By.Name != "" && len(l.Holders) <= 1 {
		s.put(`<dd class="code faint">%s`, operator.Plain(l.Holder))
		if !l.By.Started.IsZero() {
			s.put(` · started %s`, stamp(l.By.Started))
		}
		if l.By.Version != "" {
			s.put(` · relock %s`, l.By.Version)
		}
		s.put(`</dd>`)
	}
	s.put(`</div>
`)
	fact := func(what markup, value any) {
		s.put(`<div><dt>`+what+`</dt><dd>%s</dd></div>
`, value)
	}
	if l.Semaphore() {
		size, free := "–", "–"
		if l.Permits >= 0 {
			size, free = count(l.Permits), count(l.Free)
		}
		fact("Permits", size)
		fact("Held", count(l.Count))
		fact("Free", free)
		fact("The next lease ends in", l.TTLText())
		fact("Longest wait", l.WaitText())
	} else {
		fact("Held for", l.AgeText())
		fact("TTL", l.TTLText())
		if len(l.Holders) > 0 {
			fact("Readers", l.Count)
		} else {
			fact("Hold count", l.Count)
		}
		fact("Longest wait", l.WaitText())
		s.put(`<div><dt>Fencing token</dt><dd class="code">%s</dd></div>
<div><dt>Last token reserved</dt><dd class="code">%s</dd></div>
`, token(l.Token), token(l.Reserved))
	}
	if l.Nodes > 0 {
		fact("Nodes that keep it", l.Nodes)
	}
	s.put(`</dl>
`)
}

// holders lists those of a semaphore.
func (l *single) holders(s *sheet) {
	if len(l.Holders) == 0 {
		return
	}
	s.table("queue", "Who holds permits, those first whose leases end first", column{head: "Holders"},
		column{"Permits", true}, column{"TTL", true})
	for i := range l.Holders {
		h := &l.Holders[i]
		s.put(`<tr role="row"><th role="rowheader" scope="row" class="holder"`)
		s.owner(h.Owner, h.By)
		s.put(`</th><td role="cell" class="number">%s</td><td role="cell" class="number">%s</td></tr>
`, h.Count, h.TTLText())
	}
	s.endTable()
	if !l.Whole() {
		s.put(`<p class="rest">These are some of the holders.</p>
`)
	}
}

// readers lists them if there are several: facts names a single one.
func (l *single) readers(s *sheet) {
	if len(l.Holders) <= 1 {
		return
	}
	s.table("readers", "Who reads under the lock", column{head: "Readers"})
	for i := range l.Holders {
		h := &l.Holders[i]
		s.put(`<tr role="row"><td role="cell" class="holder"`)
		s.owner(h.Owner, h.By)
		s.put(`</td></tr>
`)
	}
	s.endTable()
	if l.Count > len(l.Holders) {
		s.put(`<p class="rest">These are some of %s.</p>
`, count(l.Count))
	}
}

func (l *single) queue(s *sheet) {
	if len(l.Queue) == 0 {
		s.put(`<p class="rest">Nobody waits.`)
		s.either(l.Held, ` Redisson’s waiters leave nothing in Redis.`, ``)
		s.put(`</p>
`)
		return
	}
	s.table("queue", "Who waits for the lock, the first in line first", column{"Place", true}, column{head: "Waiter"}, column{"Waiting", true})
	for i := range l.Queue {
		w := &l.Queue[i]
		s.put(`<tr role="row"><td role="cell" class="number">%s</td><th role="rowheader" scope="row" class="holder"`, i+1)
		s.owner(w.Owner, w.By)
		if w.Side != "" {
			s.put(` <span class="badge">%s</span>`, w.Side)
		}
		if w.Wants > 0 {
			s.put(` <span class="badge">wants %s</span>`, count(w.Wants))
		}
		s.put(`</th><td role="cell" class="number">%s</td></tr>
`, operator.Short(w.Waited))
	}
	s.endTable()
	if l.Rest > 0 {
		s.put(`<p class="rest">The other %s waiters stand behind them.</p>
`, count(l.Rest))
	}
}

func (l *single) past(s *sheet) {
	if len(l.Past) == 0 {
		s.put(`<p class="rest">Nobody was seen to hold it.</p>
`)
		return
	}
	s.table("past", "Who held the lock, the last first", column{head: "From, UTC"}, column{head: "Seen until"}, column{head: "Holder"},
		column{"Most waiters", true}, column{"Token", true})
	for i := range l.Past {
		p := &l.Past[i]
		s.put(`<tr role="row"><td role="cell" data-label="From"><time datetime="%s">%s</time></td>`+
			`<td role="cell" data-label="Seen until"><time datetime="%s">%s</time> <span class="faint">(%s)</span></td><td role="cell" class="holder">`,
			stamp(p.From), clock(p.From), stamp(p.Until), clock(p.Until), operator.Short(p.Lasted()))
		switch {
		case !p.Held:
			s.put(`<span class="faint">nobody</span>`)
		case p.Holder != "":
			s.put(`<span title="%s">%s</span>`, operator.Plain(p.Holder), p.Owner)
		default:
			s.put(`<span>%s</span>`, p.Owner)
		}
		s.put(`</td><td role="cell" class="number" data-label="Most waiters">%s</td><td role="cell" class="number code" data-label="Token">%s</td></tr>
`, count(p.Waiters), token(p.Token))
	}
	s.endTable()
}

func (q *question) main(s *sheet) {
	s.put(`<nav><a href="%s">Back to the lock</a></nav>
<h1 class="title">Free <q>%s</q>?</h1>
<p>`, linkTo("lock", q.Name), operator.Plain(q.Name))
	if q.Semaphore() {
		s.put(`All %s permits that are held are freed. They are`, count(q.Count))
	} else {
		s.put(`It is`)
	}
	s.put(` held by <strong class="code">%s</strong>`, q.WhoText())
	if q.Age >= 0 {
		s.put(` for %s`, q.AgeText())
	}
	if q.Waiters > 0 {
		s.put(`, and %s`, count(q.Waiters))
		s.either(q.Waiters == 1, ` waits for it`, ` wait for it`)
	}
	s.put(`.</p>
`)
	s.either(q.Semaphore(), `<p>They go to the next waiters at once. The holders are told, but may still act for a moment.</p>
`, `<p>The lock goes to the next waiter at once. The holder is told, but may still act for a moment: only fencing tokens keep it out then.</p>
`)
	s.put(`<form class="actions" action="%s" method="post">
`, linkTo("force", q.Name))
	for _, grant := range q.Grants {
		s.put(`<input type="hidden" name="grant" value="%s">
`, grant)
	}
	s.put(`<button class="danger">Free %s</button>
<a href="%s">Leave it as it is</a>
</form>
`, operator.Plain(q.Name), linkTo("lock", q.Name))
}

func (m *message) main(s *sheet) {
	s.put(`<h1 class="title">%s</h1>
<p>%s</p>
<p>`, m.Title, m.Text)
	if m.Lock != "" {
		s.put(`<a href="%s">The lock %s</a> · `, linkTo("lock", m.Lock), operator.Plain(m.Lock))
	}
	s.put(`<a href="./">All locks</a></p>
`)
}

// count returns a number with commas between thousands.
func count(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// token returns a fencing token, or a dash if it is unknown.
func token(n int64) string {
	if n == 0 {
		return "–"
	}
	return strconv.FormatInt(n, 10)
}

// clock returns a time in UTC, with the date if it is over a day ago.
func clock(t time.Time) string {
	if time.Since(t) > 24*time.Hour {
		return t.UTC().Format("2006-01-02 15:04")
	}
	return t.UTC().Format("15:04:05")
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
