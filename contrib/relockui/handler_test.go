package relockui

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/opening"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

var lockLink = regexp.MustCompile(`<a href="(lock\?name=[^"]*)">([^<]*)</a>`)

// names are those of the list's rows, as they are shown.
func names(body string) string {
	var all []string
	for _, link := range lockLink.FindAllStringSubmatch(body, -1) {
		all = append(all, link[2])
	}
	return strings.Join(all, " ")
}

// rows counts the list's rows.
func rows(body string) int { return strings.Count(body, `<a href="lock?name=`) }

func TestList(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, Handler(newClient(t, srv.Client()), WithLabel("the Redis of orders")))
	require.Contains(t, s.get("/"), "Nobody holds a lock.")
	first, second := newClient(t, srv.Client()), newClient(t, srv.Client())
	held(t, first, "bills")
	held(t, first, "order:1")
	held(t, first, "order:2")
	waiting(t, second, "order:2")
	srv.Do("HSET", "java", javaOwner, "2")
	srv.Do("HSET", "user:1", "name", "Ada")
	s.shows("/", ">java</a>")

	body := s.get("/")
	require.Contains(t, body, "the Redis of orders")
	require.Regexp(t, `(?s)<dt>Locks</dt><dd>4</dd>.*<dt>With waiters</dt><dd>1</dd>.*<dt>Waiters</dt><dd>1</dd>`, body)
	require.Equal(t, "order:2 bills order:1 java", names(body), "by waiters, then by age")
	require.Regexp(t, `(?s)>order:2</a></th>\s*<td[^>]*>1</td>\s*<td[^>]*>[\d.]+s</td>\s*<td[^>]*>[\d.]+s</td>\s*<td[^>]*>\d+s</td>\s*<td[^>]*>`+
		first.ID()+`:3\d{16}</td>`, body)
	require.Equal(t, "bills order:1 order:2 java", names(s.get("/?sort=age")))
	require.Equal(t, "bills java order:1 order:2", names(s.get("/?sort=name")))
	require.Equal(t, "order:2 bills order:1 java", names(s.get("/?sort=size")))
	for filter, want := range map[string]string{
		"order:*": "order:1 order:2", "order:[1]": "order:1", "rder": "order:1 order:2", "*": "bills java order:1 order:2",
		"b?lls": "bills", javaOwner: "java", "order": "order:1 order:2", "bill?": "bills", "bil?": "", " bills ": "bills",
	} {
		require.Equal(t, want, names(s.get("/?sort=name&q="+url.QueryEscape(filter))), filter)
	}
	body = s.get("/?q=nothing")
	require.Contains(t, body, "No lock of 4 fits the filter.")
	require.Contains(t, body, `value="nothing"`)
	require.Equal(t, http.StatusNotFound, s.do(http.MethodGet, "/elsewhere", nil).status)
	require.Equal(t, http.StatusMethodNotAllowed, s.do(http.MethodPost, "/", nil).status)
}

func TestLock(t *testing.T) {
	srv := redistest.Start(t)
	first, second := newClient(t, srv.Client()), newClient(t, srv.Client())
	lease := held(t, first, "orders")
	granted := waiting(t, second, "orders")
	s := open(t, Handler(newClient(t, srv.Client())))

	body := s.get("/lock?name=orders")
	require.Regexp(t, `<dt>Holder</dt><dd class="code">`+first.ID()+`:1\d{16}</dd>`, body)
	require.Regexp(t, `<dt>TTL</dt><dd>\d+s</dd>`, body)
	require.Contains(t, body, `<dt>Fencing token</dt><dd class="code">`+strconv.FormatInt(lease.Token(), 10)+`</dd>`)
	require.Contains(t, body, "1 waiting")
	require.Contains(t, body, `<th role="rowheader" scope="row" class="holder">`+second.ID()+`:1</th>`)

	require.NoError(t, lease.Unlock(t.Context()))
	next := <-granted
	s.shows("/lock?name=orders", `<dt>Holder</dt><dd class="code">`+second.ID()+`:1`)
	body = s.get("/lock?name=orders")
	past := body[strings.Index(body, `id="past"`):]
	require.Less(t, strings.Index(past, second.ID()), strings.Index(past, first.ID()), "the last first")
	require.Contains(t, past, strconv.FormatInt(next.Token(), 10))
	require.NoError(t, next.Unlock(t.Context()))
	s.shows("/lock?name=orders", `<dt>Holder</dt><dd class="code">nobody</dd>`)

	body = s.get("/lock?name=free")
	require.Contains(t, body, `<span class="badge free">free</span>`)
	require.Contains(t, body, "Nobody was seen to hold it.")
	for _, name := range []string{"", "a{}", strings.Repeat("x", 2000)} {
		require.Equal(t, http.StatusNotFound, s.do(http.MethodGet, lockPath(name), nil).status)
	}
}

// Where clients say who they are, that is what is shown of holders and waiters.
func TestNamesOfClients(t *testing.T) {
	srv := redistest.Start(t)
	locks, err := relock.New(srv.Client(), relock.WithClientName("<billing>"))
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	held(t, locks, "orders")
	other := newClient(t, srv.Client())
	held(t, other, "bills")
	waiting(t, locks, "bills")
	s := open(t, Handler(newClient(t, srv.Client()), WithForce()))
	who := "&lt;billing&gt; on "
	require.Eventually(t, func() bool {
		return regexp.MustCompile(` title="` + locks.ID() + `:1\d{16}">` + who).MatchString(s.get("/?q=orders"))
	}, patience, time.Millisecond)
	require.Equal(t, "orders", names(s.get("/?q="+url.QueryEscape("<billing> on"))))
	require.Equal(t, "orders", names(s.get("/?q="+locks.ID())))
	s.shows("/lock?name=orders", `<dt>Holder</dt><dd class="code">`+who)
	body := s.get("/lock?name=orders")
	require.Regexp(t, `<dd class="code faint">`+locks.ID()+`:1\d{16} · started `, body)
	require.Regexp(t, `<span title="`+locks.ID()+`:1\d{16}">`+who, body)
	require.Contains(t, s.get("/lock?name=bills"), ` title="`+locks.ID()+`:2">`+who)
	require.Contains(t, s.get("/force?name=orders"), who)
}

// A lock that waits to be taken over is told from one that is held.
func TestHandleIsToldFromAHolder(t *testing.T) {
	srv := redistest.Start(t)
	locks := newClient(t, srv.Client())
	_, err := held(t, locks, "orders").HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	s := open(t, Handler(newClient(t, srv.Client())))
	who := "a handle of " + locks.ID() + ", to be taken over"
	require.Contains(t, s.get("/?q=orders"), who)
	s.shows("/lock?name=orders", `<dt>Holder</dt><dd class="code">`+who)
}

// A lock that is read is shown with its readers, and its queue with the side that each waits for.
func TestReaders(t *testing.T) {
	srv := redistest.Start(t)
	client := func(name string) *relock.RWMutex {
		locks, err := relock.New(srv.Client(), relock.WithClientName(name))
		require.NoError(t, err)
		t.Cleanup(locks.Close)
		return locks.RWMutex("orders")
	}
	for _, name := range []string{"<a>", "b"} {
		_, err := client(name).RLock(t.Context())
		require.NoError(t, err)
	}
	s := open(t, Handler(newClient(t, srv.Client())))
	waits := client("writes")
	go func() { _, _ = waits.Lock(t.Context()) }()
	var body string
	require.Eventually(t, func() bool {
		body = s.get("/lock?name=orders")
		return strings.Contains(body, ">writes on ") && strings.Contains(body, ">b on ")
	}, patience, 100*time.Millisecond)
	require.Regexp(t, `<dt>Holder</dt><dd class="code">&lt;a&gt; on .* and 1 more</dd></div>`, body)
	require.Regexp(t, `(?s)Who reads.*>&lt;a&gt; on [^<]*</td>.*>b on [^<]*</td>`, body)
	require.Regexp(t, `>writes on [^<]* <span class="badge">write</span></th>`, body)
	require.Contains(t, body, "<dt>Readers</dt><dd>2</dd>")
	require.NotContains(t, body, "These are some")
}

// Names and owners are anybody's: they are text wherever they stand, and links lead back to them.
func TestNamesAreText(t *testing.T) {
	srv := redistest.Start(t)
	evil := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, "javascript:alert(1)", "a b/../c?d=e&f#g%2f+h",
		"new\nline", "\x1b[31mred", "\xff\xfe", "\u202eabc", "{{.}}", "</table>", "..", "über",
	}
	for _, name := range evil {
		srv.Do("HSET", name, `<b>"owner"</b>`, "1", "relock:first", "1800000000000000:1:<b>\"owner\"</b>")
		srv.Do("ZADD", "relock_queue:{"+name+"}", "1", "1:1:uuid:1:<i>waiter</i>")
	}
	srv.Do("HSET", "{tag}<u>", javaOwner, "1")
	s := open(t, Handler(newClient(t, srv.Client()), WithForce(), WithLabel("<s>")))
	body := s.get("/?sort=name")
	safe := func(body string) {
		for _, tag := range []string{"<script>", "<img src=x", "<b>", "<i>", "<u>", "<s>", " onmouseover='", `href="javascript:`, "\x1b", "\xff", "\u202e"} {
			require.NotContains(t, body, tag)
		}
	}
	safe(body)
	links := lockLink.FindAllStringSubmatch(body, -1)
	found := make(map[string]bool)
	for _, link := range links {
		at, err := url.Parse(strings.ReplaceAll(link[1], "&amp;", "&"))
		require.NoError(t, err)
		name := at.Query().Get("name")
		found[name] = true
		page := s.get("/" + at.String())
		require.Contains(t, page, link[2]+"</h1>")
		require.Contains(t, page, `<span class="badge held">held</span>`)
		safe(page)
		safe(s.get("/force?" + at.RawQuery))
	}
	for _, name := range evil {
		require.True(t, found[name], "%q", name)
	}
	safe(s.get("/?q=" + url.QueryEscape(evil[1])))
	safe(s.do(http.MethodGet, lockPath("a{}<b>"), nil).body)
}

// What browsers are told keeps out what did get in: nothing stands in the page itself, and no other site may frame it.
func TestHeaders(t *testing.T) {
	srv := redistest.Start(t)
	held(t, newClient(t, srv.Client()), "orders")
	s := open(t, Handler(newClient(t, srv.Client()), WithForce()))
	inline := regexp.MustCompile(`(?i)\son\w+=|\sstyle=|<style|<script(?:>| [^s])|https?://`)
	for _, path := range []string{"/", "/lock?name=orders", "/force?name=orders", "/force?name=free", "/nowhere", "/static/style.css", "/static/nothing"} {
		got := s.do(http.MethodGet, path, nil)
		csp := got.header.Get("Content-Security-Policy")
		require.Contains(t, csp, "default-src 'none'")
		require.Contains(t, csp, "frame-ancestors 'none'")
		require.NotContains(t, csp, "unsafe")
		require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
		require.Equal(t, "same-origin", got.header.Get("Referrer-Policy"))
		require.Empty(t, inline.FindString(got.body), path)
	}
	require.Equal(t, "no-store", s.do(http.MethodGet, "/", nil).header.Get("Cache-Control"))
	for file, kind := range map[string]string{"style.css": "text/css", "script.js": "javascript", "icon.svg": "image/svg+xml"} {
		got := s.do(http.MethodGet, "/static/"+file, nil)
		require.Equal(t, http.StatusOK, got.status)
		require.Contains(t, got.header.Get("Content-Type"), kind)
	}
	for _, path := range []string{"/static/", "/static/..", "/static/../handler.go", "/static/..%2fpages%2flist.html"} {
		require.NotEqual(t, http.StatusOK, s.do(http.MethodGet, path, nil).status, path)
	}
}

// Without its script the page has all there is to see and do: links, and forms that a browser sends by itself.
func TestWithoutScript(t *testing.T) {
	srv := redistest.Start(t)
	held(t, newClient(t, srv.Client()), "orders")
	s := open(t, Handler(newClient(t, srv.Client()), WithForce()))
	body := s.get("/")
	require.Equal(t, "orders", names(body))
	require.Contains(t, body, `<form class="filter" role="search" action="./" method="get">`)
	require.Contains(t, body, `<noscript><a href="">Refresh</a></noscript>`)
	require.Contains(t, body, `<button type="button" id="pause" hidden>`)
	require.Contains(t, s.get("/lock?name=orders"), `href="force?name=orders"`)
	require.Contains(t, s.get("/force?name=orders"), `<form class="actions" action="force?name=orders" method="post">`)
}

// All links are relative, so the page can stand below any path.
func TestBelowAPath(t *testing.T) {
	srv := redistest.Start(t)
	held(t, newClient(t, srv.Client()), "orders")
	mux := http.NewServeMux()
	page := http.StripPrefix("/ops/locks", Handler(newClient(t, srv.Client()), WithForce()))
	mux.Handle("/ops/locks", page)
	mux.Handle("/ops/locks/", page)
	s := open(t, mux)
	got := s.do(http.MethodGet, "/ops/locks?x=1", nil)
	require.Equal(t, http.StatusMovedPermanently, got.status)
	require.Equal(t, "./locks/", got.header.Get("Location"))
	linked := regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	for _, path := range []string{"/ops/locks/", "/ops/locks/?q=ord&sort=age", "/ops/locks/lock?name=orders", "/ops/locks/force?name=orders"} {
		links := linked.FindAllStringSubmatch(s.get(path), -1)
		require.NotEmpty(t, links)
		for _, link := range links {
			at, err := url.Parse(s.base + path)
			require.NoError(t, err)
			at, err = at.Parse(strings.ReplaceAll(link[1], "&amp;", "&"))
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(at.Path, "/ops/locks/"), link[1])
			if at.Path != "/ops/locks/force" {
				s.get(at.RequestURI())
			}
		}
	}
}

// However many look, Redis is asked once a second at most.
func TestViewersShareALook(t *testing.T) {
	srv := redistest.Start(t)
	seed(srv, "1000", "0")
	s := open(t, Handler(newClient(t, srv.Client())))
	srv.ResetCommandCounts()
	began := time.Now()
	bodies := make(chan string, 100)
	for range cap(bodies) {
		go func() {
			s.do(http.MethodGet, "/lock?name=order:7", nil)
			bodies <- s.do(http.MethodGet, "/", nil).body
		}()
	}
	for range cap(bodies) {
		require.Equal(t, someRows, rows(<-bodies))
	}
	looks := int64(time.Since(began)/fresh) + 1
	counts := srv.CommandCounts()
	require.LessOrEqual(t, counts["pttl"], looks*2*1000, "%v", counts) // a key that moves is scanned twice
	require.LessOrEqual(t, counts["get"], looks)
}

// The commands that looking may cost, each of which is short.
var reading = []string{"scan", "hscan", "hget", "get", "pttl", "zcount", "zrangebyscore", "time",
	"hello", "ping", "auth", "select", "client", "client|setinfo", "client|tracking", "command"}

// Ten thousand locks make no long page and no long command.
func TestTenThousand(t *testing.T) {
	srv := redistest.Start(t)
	seed(srv, "10000", "500")
	s := open(t, Handler(newClient(t, srv.Client())))
	srv.ResetCommandCounts()
	s.shows("/", "<dt>Locks</dt><dd>10,000</dd>")
	body := s.get("/")
	require.Contains(t, body, "<dt>Waiters</dt><dd>500</dd>")
	require.Contains(t, body, "100 of 10,000 locks. The other 9,900 have no waiters")
	require.Equal(t, someRows, rows(body))
	require.Less(t, len(body), 100<<10)
	body = s.get("/?rows=5000&sort=age")
	require.Equal(t, manyRows, rows(body))
	require.Contains(t, body, "1,000 of 10,000 locks. The other 9,000 have 500 waiters; a filter finds them.")
	counts := srv.CommandCounts()
	for name := range counts {
		require.Contains(t, reading, name, "%v", counts)
	}
	require.GreaterOrEqual(t, counts["scan"], int64(10_000/200))
	s.get("/lock?name=order:1")
}

// A user who may only read sees all, and changes nothing.
func TestReadOnlyUser(t *testing.T) {
	srv := redistest.Start(t)
	rdb, err := rueidis.NewClient(srv.AddUser("watcher", "pw", "~*", "+@read"))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	locks := newClient(t, srv.Client())
	lease := held(t, locks, "orders")
	waiting(t, newClient(t, srv.Client()), "orders")
	s := open(t, Handler(newClient(t, rdb), WithForce()))
	require.Contains(t, s.get("/"), "<dt>Waiters</dt><dd>1</dd>")
	require.Contains(t, s.get("/lock?name=orders"), "1 waiting")
	path, form := agreed(t, s, "orders")
	got := s.do(http.MethodPost, path, form)
	require.Equal(t, http.StatusBadGateway, got.status)
	require.Contains(t, got.body, "NOPERM")
	require.NoError(t, lease.Context().Err())
}

// A Redis that is gone is told of, beside what was seen before.
func TestRedisIsGone(t *testing.T) {
	srv := redistest.Start(t)
	held(t, newClient(t, srv.Client()), "orders")
	s, late := open(t, Handler(newClient(t, srv.Client()))), open(t, Handler(newClient(t, srv.Client())))
	require.Equal(t, "orders", names(s.get("/")))
	require.Contains(t, s.get("/lock?name=orders"), "held")
	srv.Kill()
	var all sync.WaitGroup
	for _, viewed := range []*site{s, late} {
		all.Go(func() { viewed.shows("/", "Redis cannot be read: ") })
		all.Go(func() { viewed.shows("/lock?name=orders", "Redis cannot be read: ") })
	}
	all.Wait()
	body := s.get("/")
	require.Contains(t, body, "What is shown is older.")
	require.Equal(t, "orders", names(body))
	require.Contains(t, s.get("/lock?name=orders"), `<span class="badge held">held</span>`)
	for _, path := range []string{"/", "/lock?name=orders"} {
		require.Equal(t, http.StatusServiceUnavailable, late.do(http.MethodGet, path, nil).status)
	}
}

func TestQuorum(t *testing.T) {
	var nodes []rueidis.Client
	for i := range 3 {
		srv := redistest.Start(t)
		srv.Do("HSET", "billing:orders", javaOwner, "1", "relock:vote", "1800000000000000:1")
		if i < 2 {
			srv.Do("HSET", "billing:half", strconv.Itoa(i), "1", "relock:vote", "1800000000000000:1")
		}
		nodes = append(nodes, srv.Client())
	}
	quorum := func(opts ...relock.ClientOption) *relock.Client {
		locks, err := relock.NewRedlock(nodes, append(opts, relock.WithNamePrefix("billing:"))...)
		require.NoError(t, err)
		t.Cleanup(locks.Close)
		return locks
	}
	s := open(t, Handler(quorum()))
	body := s.get("/?sort=name")
	require.Equal(t, "half orders", names(body))
	require.Contains(t, body, "nobody; 1 nodes keep it for ")
	body = s.get("/lock?name=orders")
	require.Contains(t, body, "<dt>Nodes that keep it</dt><dd>3</dd>")
	require.Contains(t, body, javaOwner)
	require.Contains(t, s.get("/lock?name=half"), "no quorum")

	// As many nodes must keep a lock as WithQuorum says.
	require.NoError(t, nodes[2].Do(t.Context(), nodes[2].B().Del().Key("billing:orders").Build()).Error())
	require.Contains(t, open(t, Handler(quorum())).get("/lock?name=orders"), `<span class="badge held">held</span>`)
	require.NotContains(t, open(t, Handler(quorum(relock.WithQuorum(3)))).get("/lock?name=orders"), `<span class="badge held">held</span>`)
}

// Without a client whose Redis can be read, the page says what is wrong.
func TestNoRedis(t *testing.T) {
	inMemory, err := opening.New(new(faults.Stub), []relock.ClientOption{})
	require.NoError(t, err)
	t.Cleanup(inMemory.(*relock.Client).Close)
	for locks, what := range map[*relock.Client]string{
		nil: "is nil", new(relock.Client): "not made by New", inMemory.(*relock.Client): "it takes a real Redis",
	} {
		got := httptest.NewRecorder()
		Handler(locks).ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		require.Equal(t, http.StatusInternalServerError, got.Code)
		require.Contains(t, got.Body.String(), what)
	}
}

// A page whose context has ended reads nothing.
func TestContext(t *testing.T) {
	srv := redistest.Start(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	w := httptest.NewRecorder()
	ctx := canceled(t)
	Handler(newClient(t, srv.Client()), WithContext(ctx)).ServeHTTP(w, r)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "context canceled")
}
