package lua

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What the first client of a process waits for: the files are taken apart, and all scripts of a topology put together.
func BenchmarkFiles(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		takeApart()
	}
}

func BenchmarkScripts(b *testing.B) {
	for _, topology := range topologies {
		b.Run(topology.name, func(b *testing.B) {
			b.ReportAllocs()
			s := Scripts{Kind: kinds[0], Quorum: topology.quorum}
			for b.Loop() {
				for _, name := range topology.scripts {
					_, err := s.Text(name)
					require.NoError(b, err)
				}
				_, err := s.Sweep(topology.swept)
				require.NoError(b, err)
				if !topology.quorum {
					for _, name := range []string{"acquire", "release"} {
						_, err := s.Many(name)
						require.NoError(b, err)
					}
				}
			}
		})
	}
}
