//go:build unix && !linux

package worker

import "time"

func doze(d time.Duration) { time.Sleep(d) }
