// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkSetsockopt measures the cost of an unrelated socket option with and without socket
// contexts: the fastest tenth of many series.
func BenchmarkSetsockopt(b *testing.B) {
	s := newSenders(b, "", allFields)
	fd, _ := s.toBeta(b)
	for _, setting := range []struct{ name, more string }{{"off", ""}, {"on", takesContexts}} {
		b.Run(setting.name, func(b *testing.B) {
			s.begin(b, setting.more, allFields)
			var took []time.Duration
			for range 200 {
				start := time.Now()
				for range packets {
					if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, 1); err != nil {
						b.Fatal(err)
					}
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/10])/packets, "ns/option")
			b.ReportMetric(0, "ns/op")
		})
	}
}
