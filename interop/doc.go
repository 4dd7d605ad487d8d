// Package interop holds the tests that run relock beside the real Redisson: one lock, two languages.
//
// Its tests build the small Java program in java with Maven, once for each Redisson version they claim, and tell it by
// lines on its standard input what to do. They need a JDK 17, Maven with access to its registry, and redis-server.
// The tests named TestWire need no Java: they replay what Redisson sent, as kept in testdata.
//
// After a new Redisson release, or a change of what is recorded, write testdata anew:
//
//	go test -run TestTranscript -update
//
// How often the test of semaphores under load takes permits is a flag of its own:
//
//	go test -v -run TestPermitsUnderLoad -operations 20000
package interop
