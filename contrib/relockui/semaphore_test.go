package relockui

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// entry is the id of an entry of a client.
func entry(client int) string {
	return fmt.Sprintf("%08x-5c1d-4f0e-9a65-0d2c3b4a5e6f:1%016d", client, client)
}

// hold puts permits of an entry into Redis, by so many seconds.
func hold(srv *redistest.Server, name, id string, permits, seconds int) {
	srv.Do("EVAL", `local ends = (redis.call('TIME')[1] + ARGV[4]) * 1000
	for i = 1, tonumber(ARGV[3]) do
		redis.call('ZADD', '{' .. ARGV[1] .. '}:timeout', ends, ARGV[2] .. ':' .. i)
	end`, "0", name, id, fmt.Sprint(permits), fmt.Sprint(seconds))
}

// A semaphore is shown with its size, its holders and what each waiter wants.
func TestSemaphore(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do("SET", "pool", "4")
	hold(srv, "pool", entry(1), 2, 60)
	srv.Do("ZADD", "{pool}:timeout", "922337203685477", "<b>3456789abcdef")
	srv.Do("HSET", "relock_client:00000001-5c1d-4f0e-9a65-0d2c3b4a5e6f", "name", "<billing>")
	srv.Do("ZADD", "relock_permits:{pool}", "1", "30000:3:"+entry(2)+":")
	s := open(t, Handler(newClient(t, srv.Client())))
	list := s.get("/")
	require.Equal(t, "pool", names(list))
	require.Contains(t, list, ">3 of 7: &lt;billing&gt; and 1 more</td>")
	require.Contains(t, list, ">semaphore</td>")

	body := s.get("/lock?name=pool")
	for _, fact := range []string{"Permits</dt><dd>7", "Held</dt><dd>3", "Free</dt><dd>4"} {
		require.Contains(t, body, "<dt>"+fact+"</dd>")
	}
	require.Regexp(t, `The next lease ends in</dt><dd>(1m0s|\d+s)</dd>`, body)
	require.Regexp(t, ` title="`+entry(1)+`">&lt;billing&gt;</th><td[^>]*>2</td><td[^>]*>(1m0s|\d+s)</td>`, body)
	require.Regexp(t, `>3c623e33343536373839616263646566</th><td[^>]*>1</td><td[^>]*>never ends</td>`, body)
	require.Regexp(t, `>00000002-5c1d-4f0e-9a65-0d2c3b4a5e6f:1 <span class="badge">wants 3</span></th>`, body)
	require.Regexp(t, `(?s)id="past".*<span>3 of 7</span>`, body)
	require.NotContains(t, body, "Fencing token")
	require.NotContains(t, body, "These are some")

	srv.Do("DEL", "pool")
	s.shows("/lock?name=pool", "<dt>Permits</dt><dd>–</dd>")
}

// The question names all permits. The answer counts as long as one of those holders has some, and no longer.
func TestForceOfASemaphore(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do("SET", "pool", "1")
	hold(srv, "pool", entry(1), 2, 60)
	hold(srv, "pool", entry(2), 1, 61)
	s := open(t, Handler(newClient(t, srv.Client()), WithForce()))
	body := s.get("/force?name=pool")
	require.Contains(t, body, `All 3 permits that are held are freed. They are held by <strong class="code">`+entry(1)+` and 1 more</strong>`)
	grants := regexp.MustCompile(`name="grant" value="([^"]*)"`).FindAllStringSubmatch(body, -1)
	require.Len(t, grants, 2)
	form := url.Values{}
	for _, grant := range grants {
		form.Add("grant", html.UnescapeString(grant[1]))
	}
	srv.Do("DEL", "{pool}:timeout")
	hold(srv, "pool", entry(3), 1, 60)
	require.Equal(t, http.StatusConflict, s.do(http.MethodPost, forcePath("pool"), form).status)
	require.Equal(t, "1", srv.Do("ZCARD", "{pool}:timeout"))

	srv.Do("DEL", "pool", "{pool}:timeout")
	var permits []*relock.Lease
	for range 2 {
		p, err := newClient(t, srv.Client()).Semaphore("pool", 2).Acquire(t.Context(), 1)
		require.NoError(t, err)
		permits = append(permits, p)
	}
	form = url.Values{}
	for _, grant := range regexp.MustCompile(`name="grant" value="([^"]*)"`).FindAllStringSubmatch(s.get("/force?name=pool"), -1) {
		form.Add("grant", grant[1])
	}
	require.NoError(t, permits[0].Unlock(t.Context()))
	got := s.do(http.MethodPost, forcePath("pool"), form)
	require.Equal(t, http.StatusOK, got.status, "one of those that were named still holds: %s", got.body)
	<-permits[1].Context().Done()
	require.Equal(t, "0", srv.Do("EXISTS", "{pool}:timeout"))
}

// The form has a place for as many holders as are shown.
func TestFormOfManyHolders(t *testing.T) {
	s := &operator.Sighting{Kind: operator.KindSemaphore}
	for i := range 128 {
		s.Holders = append(s.Holders, operator.Holding{Owner: entry(i)})
	}
	require.Less(t, len(url.Values{"grant": grantsOf(s)}.Encode()), maxForm)
}

// In its history a semaphore has a period for each time during which as many permits were held, by whichever holders.
func TestHistoryOfASemaphore(t *testing.T) {
	h, now := history{locks: make(map[string]*record)}, time.Now()
	names, err := wire.Mutex.Names("", "pool")
	require.NoError(t, err)
	see := func(seconds, count int, holder string) {
		s := operator.Sighting{Names: names, Kind: operator.KindSemaphore, Held: count > 0, Holder: holder, Count: count, Permits: 4, Age: -1}
		s.By.Name = "billing"
		h.see([]operator.Sighting{s}, false, now.Add(time.Duration(seconds)*time.Second))
	}
	see(1, 3, "a")
	see(2, 4, "a")
	see(3, 4, "b")
	see(4, 0, "")
	var said []string
	for _, p := range h.of("pool") {
		said = append(said, fmt.Sprintf("%s %v %v", p.Owner, p.Held, p.Lasted()))
	}
	require.Equal(t, []string{"0 of 4 false 0s", "4 of 4 true 1s", "3 of 4 true 0s"}, said)
}
