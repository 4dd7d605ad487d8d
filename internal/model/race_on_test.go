//go:build race

package model

// raceEnabled leaves out what would take minutes under the race detector. An exploration is one goroutine.
const raceEnabled = true
