package wiretest

import (
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// rueidis's Cluster client closes nodes it no longer needs five seconds later, whether it is closed or not.
	goleak.VerifyTestMain(redistest.Main{M: m},
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}
