package patch

// A replacement turns text, which must stand exactly once in a file of Go's source, into other text.
type replacement struct {
	file, from, to string
}

var replacements = []replacement{
	// The process draws the same whenever it is started.
	{
		"runtime/rand.go",
		"\tglobalRand.state.Init(*seed)\n",
		"\t*seed = [32]byte([]byte(\"relock simulates from one seed ..\"))\n\tglobalRand.state.Init(*seed)\n",
	},
	// A thread may be made while a bubbled goroutine runs.
	{"runtime/rand.go", "\tmp.cheaprand = rand()\n", "\tmp.cheaprand = bootstrapRand()\n"},

	// What bubbled goroutines draw.
	{
		"runtime/rand.go",
		"func rand() uint64 {\n",
		"func rand() uint64 {\n\tif s := simOf(getg()); s != nil {\n\t\treturn s.draw(simHashes)\n\t}\n",
	},
	{
		"runtime/rand.go",
		"func maps_rand() uint64 {\n\treturn rand()\n",
		"func maps_rand() uint64 {\n\treturn simMapSeed()\n",
	},
	{
		"internal/runtime/maps/runtime.go",
		"//go:linkname rand\nfunc rand() uint64\n",
		"//go:linkname rand\nfunc rand() uint64\n\n//go:linkname simIteration\nfunc simIteration() uint64\n",
	},
	{"internal/runtime/maps/table.go", "\tit.entryOffset = rand()\n", "\tit.entryOffset = simIteration()\n"},
	{"internal/runtime/maps/table.go", "\tit.dirOffset = rand()\n", "\tit.dirOffset = simIteration()\n"},
	{"math/rand/rand.go", "runtime_rand runtime.rand\n", "runtime_rand runtime.simUserRand\n"},
	{"math/rand/v2/rand.go", "runtime_rand runtime.rand\n", "runtime_rand runtime.simUserRand\n"},
	{"runtime/select.go", "j := cheaprandn(uint32(norder + 1))", "j := simSelectn(uint32(norder + 1))"},
	{"runtime/time.go", "\t\t\tt.rand = cheaprand()\n", "\t\t\tt.rand = simTimer()\n"},
	{"runtime/synctest.go", "type synctestBubble struct {\n", "type synctestBubble struct {\n\tsim     simState\n"},
	{
		"runtime/synctest.go",
		"\tbubble.now = synctestBaseTime\n",
		"\tbubble.now = synctestBaseTime\n\tsimBegin(bubble)\n",
	},
	{
		"runtime/synctest.go",
		"\t\tgp.bubble = nil\n\t}()\n\n\t// This is newproc,",
		"\t\tsimEnd(bubble)\n\t\tgp.bubble = nil\n\t}()\n\n\t// This is newproc,",
	},

	// The scheduler goes by the seed, and by no real time.
	{
		"runtime/proc.go",
		"\tif randomizeScheduler && next && randn(2) == 0 {\n",
		"\tif simOutside(gp) {\n\t\treturn\n\t}\n" +
			"\tif next && simLast(gp) {\n\t\tnext = false\n\t}\n" +
			"\tif randomizeScheduler && gp.bubble == nil && next && randn(2) == 0 {\n",
	},
	{
		"runtime/proc.go",
		"\tif pp.schedtick%61 == 0 && !sched.runq.empty() {\n",
		"\tif simFair(pp) {\n",
	},
	{
		"runtime/proc.go",
		"\t// global runq\n\tif !sched.runq.empty() {\n\t\tlock(&sched.lock)\n" +
			"\t\tgp, q := globrunqgetbatch(int32(len(pp.runq)) / 2)\n",
		"\t// global runq\n\tif !sched.runq.empty() {\n\t\tlock(&sched.lock)\n" +
			"\t\tgp, q := globrunqgetbatch(simBatch(pp))\n",
	},
	{
		"runtime/proc.go",
		"\tif !inheritTime {\n\t\tmp.p.ptr().schedtick++\n\t}\n",
		"\tif !inheritTime {\n\t\tmp.p.ptr().schedtick++\n\t\tsimTick(gp)\n\t}\n",
	},
	{
		"runtime/proc.go",
		"} else if pd.schedwhen+forcePreemptNS <= now {\n",
		"} else if pd.schedwhen+simSlice(pp) <= now {\n",
	},
	{
		"runtime/proc.go",
		"\t\t// On the one hand we don't want to retake Ps if there is no other work to do,\n",
		"\t\tif thread.gp.bubble != nil && !sysretake && pd.syscallwhen+simPatience > now {\n" +
			"\t\t\tthread.resume()\n\t\t\tgoto done\n\t\t}\n\n" +
			"\t\t// On the one hand we don't want to retake Ps if there is no other work to do,\n",
	},
	{
		"runtime/sema.go",
		"func internal_sync_nanotime() int64 {\n\treturn nanotime()\n",
		"func internal_sync_nanotime() int64 {\n\treturn simNanotime()\n",
	},

	// A goroutine that starts with the stack that it needs need not copy it, four times where it runs a script.
	{"runtime/stack.go", "var startingStackSize uint32 = fixedStack\n", "var startingStackSize uint32 = 32768\n"},
	{"runtime/stack.go", "\tif debug.adaptivestackstart == 0 {\n", "\tif startingStackSize == 32768 {\n"},

	// What a process notes of the time when it starts is a bubble's time plus whole seconds.
	{"time/time.go", "\tmono -= startNano\n", "\tnsec = 0\n\tmono -= startNano\n"},

	// The children of a context are the one map of pointers that the standard library goes through all the time.
	{"context/context.go", "\tchildren map[canceler]struct{} ", "\tjoined   uint64\n\tchildren map[canceler]uint64 "},
	{"context/context.go", "make(map[canceler]struct{})", "make(map[canceler]uint64)"},
	{
		"context/context.go",
		"\t\t\tp.children[child] = struct{}{}\n",
		"\t\t\tp.joined++\n\t\t\tp.children[child] = p.joined\n",
	},
	{"context/context.go", "for child := range c.children {", "for _, child := range c.simChildren() {"},
}
