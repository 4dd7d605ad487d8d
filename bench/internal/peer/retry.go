package peer

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

func retrySpec() Spec {
	return Spec{
		Name: "retry", Module: "github.com/redis/rueidis",
		Setup: "the constant-retry lock: SET NX PX over rueidis, 10 tries 100 ms apart, then an error; 30 s lease",
		Open:  openRetry, Cluster: true, Lease: spinLease,
	}
}

var retryAcquire = rueidis.NewLuaScript(`
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 1
end
return 0`)

var retryRelease = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 0
end
return -1`)

func openRetry(e Env) (Peer, error) {
	rdb, err := e.rueidisClient()
	if err != nil {
		return nil, err
	}
	pause := func(try int) (time.Duration, error) {
		if try+1 >= retryTries {
			return 0, fmt.Errorf("the lock was taken at each of %d tries", retryTries)
		}
		return retryInterval, nil
	}
	lock := &scriptLock{rdb: rdb, acquire: retryAcquire, release: retryRelease, lease: e.leaseOr(spinLease), pause: pause}
	return lock, nil
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
