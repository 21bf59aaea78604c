// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// optionTime is what setting an option that is nobody's costs a socket: the tenth of many series
// that were least disturbed.
func optionTime(b *testing.B, fd int) float64 {
	b.Helper()
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
	return float64(took[len(took)/10]) / packets
}

// BenchmarkSockets measures what contexts of sockets cost: a datagram of 1,200 octets that gets a
// trace at its own host and is read at aramis, by what its host asks of sockets and what the socket
// was told, and any other setsockopt. Every setting has its turn in each round, in random order;
// medians, least and most of what is beyond a host that takes no contexts.
func BenchmarkSockets(b *testing.B) {
	s := newSenders(b, "", allFields)
	silent, to := s.toBeta(b)
	told, _ := s.toBeta(b)
	_ = unix.SetsockoptInt(to, unix.SOL_SOCKET, unix.SO_RCVBUF, 1) // nobody reads
	settings := []struct {
		name, more string
		fd         int
	}{{"off", "", silent}, {"a socket without", takesContexts, silent}, {"a socket with", takesContexts, told}}
	packet, option := map[string][]float64{}, []float64{}
	rounds, _ := roundsAndBursts()
	for range rounds {
		of, options := map[string]float64{}, map[string]float64{}
		for _, i := range rand.Perm(len(settings)) {
			setting := settings[i]
			s.begin(b, setting.more, allFields)
			if setting.fd == told {
				say(b, told, valid)
			}
			of[setting.name] = 1e9 / s.rate(b, setting.fd)
			options[setting.more] = optionTime(b, silent)
		}
		for name, took := range of {
			packet[name] = append(packet[name], took-of["off"])
		}
		option = append(option, options[takesContexts]-options[""])
	}
	report := func(b *testing.B, all []float64) {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], "ns-more")
		b.ReportMetric(all[0], "least")
		b.ReportMetric(all[len(all)-1], "most")
		b.ReportMetric(0, "ns/op")
	}
	for _, setting := range settings[1:] {
		b.Run(setting.name, func(b *testing.B) { report(b, packet[setting.name]) })
	}
	b.Run("another option", func(b *testing.B) { report(b, option) })
}
