// Command probe takes and gives back one lock, and leaves behind which code that ran through. It is
// built and run by command walk, with coverage, which works only where the main package is covered
// too. So this one does nothing more.
//
//	probe ADDRESS LOCKDIR UNLOCKDIR
package main

import "github.com/relock-go/relock/internal/tools/walk/steps"

func main() { steps.Main() }
