package wiretest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// rueidis's Cluster client closes nodes it no longer needs five seconds later, whether it is closed or not.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}
