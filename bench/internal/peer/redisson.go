package peer

import "time"

// redissonSpec is a lock of Redisson, driven by the Java worker in bench/redisson.
func redissonSpec(name string) Spec {
	kind := map[string]string{"redisson": "getLock", "redisson-fair": "getFairLock"}[name]
	return Spec{
		Name: name, JVM: name,
		Setup:     "Redisson." + kind + " with useSingleServer defaults; a thread per goroutine of the others",
		Reentrant: true, Keeps: true, RenewEvery: third, Lease: 30 * time.Second,
	}
}
