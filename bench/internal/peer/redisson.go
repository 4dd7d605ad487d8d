package peer

import "time"

// redissonSpec is a lock of Redisson, driven by the Java worker in bench/redisson.
func redissonSpec(name string) Spec {
	kind := map[string]string{"redisson": "getLock", "redisson-fair": "getFairLock"}[name]
	fair, semaphores := name == "redisson-fair", ""
	if !fair {
		semaphores = ", its getPermitExpirableSemaphore with leases of 30 s, its getMultiLock for several locks in the order of their names,"
	}
	return Spec{
		Name: name, JVM: name, Semaphore: !fair, Weighted: !fair, Several: !fair,
		Setup:     "Redisson." + kind + semaphores + " with useSingleServer defaults; a thread per goroutine of the others",
		Reentrant: true, Keeps: true, RenewEvery: third, Lease: 30 * time.Second,
	}
}
