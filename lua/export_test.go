package lua

// What is run, for the tests outside of the package.
var (
	AloneScripts  = aloneScripts
	QuorumScripts = quorumScripts
)
