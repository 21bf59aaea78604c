// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"weir/ix/rib"
	"weir/ix/wire"
)

// BenchmarkIXLoad loads a table of 18 ports from MRT: real paths of RouteViews (ix/wire/testdata)
// on generated prefixes, 95 % of the prefixes at each port. The origin AS differs between groups of
// six prefixes, so that an attribute set is shared by 5.7 paths, near the 5.9 of a full table. It
// reports paths per second of CPU time, and the growth of the process's memory per path, buffers
// and reserves included.
func BenchmarkIXLoad(b *testing.B) {
	for _, c := range []struct {
		name      string
		four, six int
	}{{"1M", 51_000, 10_000}, {"18M", 830_000, 227_000}} {
		b.Run(c.name, func(b *testing.B) {
			name := filepath.Join(b.TempDir(), "table.mrt")
			if err := writeIXTable(name, c.four, c.six); err != nil {
				b.Fatal(err)
			}
			for range b.N {
				loadIXTable(b, name)
			}
		})
	}
}

const ixPorts = 18

func loadIXTable(b *testing.B, name string) {
	debug.FreeOSMemory()
	before, cpu := residentBytes(b), cpuSeconds(b)
	file, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	r, err := wire.NewReader(file, wire.Options{})
	if err != nil {
		b.Fatal(err)
	}
	table := rib.New(ixPorts)
	var route wire.Route
	for err = r.Next(&route); err == nil; err = r.Next(&route) {
		if err := table.Set(route.Prefix, rib.PortID(route.Peer), route.Attrs); err != nil {
			b.Fatal(err)
		}
	}
	if n, fault := r.Malformed(); err != io.EOF || n > 0 {
		b.Fatal(err, n, fault)
	}
	loaded, resident := cpuSeconds(b)-cpu, residentBytes(b)
	stats := table.Stats()
	paths := float64(stats.Paths)
	b.ReportMetric(paths, "paths")
	b.ReportMetric(paths/float64(stats.AttributeSets), "paths/set")
	b.ReportMetric(paths/loaded, "paths/cpu-s")
	b.ReportMetric(float64(stats.Bytes)/paths, "B/path")
	b.ReportMetric(float64(resident-before)/paths, "RSS-B/path")
	b.ReportMetric(float64(resident)/(1<<20), "RSS-MiB")

	cpu = cpuSeconds(b)
	seen := 0
	for _, paths := range table.All {
		seen += len(paths)
	}
	if seen != stats.Paths {
		b.Fatalf("%d paths instead of %d", seen, stats.Paths)
	}
	b.ReportMetric(cpuSeconds(b)-cpu, "walk-cpu-s")
	cpu = cpuSeconds(b)
	gone := table.Clear(3)
	b.ReportMetric(float64(gone)/(cpuSeconds(b)-cpu), "withdrawals/cpu-s")
}

// residentBytes returns the process's resident memory.
func residentBytes(b *testing.B) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	kib, err := strconv.ParseInt(string(regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)[1]), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib << 10
}

// cpuSeconds returns the CPU time of the process.
func cpuSeconds(b *testing.B) float64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// ixTemplates returns the attributes of an excerpt's routes by prefix, those of ixPorts peers.
func ixTemplates(name string) (all [][][]byte, err error) {
	file, err := os.Open("../ix/wire/testdata/" + name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	r, err := wire.NewReader(file, wire.Options{})
	if err != nil {
		return nil, err
	}
	var last netip.Prefix
	for route, err := range r.All {
		if err != nil {
			return nil, err
		}
		if route.Prefix != last {
			last, all = route.Prefix, append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], bytes.Clone(route.Attrs))
	}
	all = slices.DeleteFunc(all, func(paths [][]byte) bool { return len(paths) < ixPorts })
	if len(all) == 0 {
		err = fmt.Errorf("%s: no prefix has %d paths", name, ixPorts)
	}
	return all, err
}

// writeIXTable writes a table with four IPv4 and six IPv6 prefixes.
func writeIXTable(name string, four, six int) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	out := bufio.NewWriterSize(file, 1<<20)
	peers := []byte{0, 0, 0, 0, 0, 0, 0, ixPorts}
	for i := range byte(ixPorts) {
		peers = append(peers, 2, 10, 0, 0, i, 10, 99, 1, i, 0, 0, 0xfd, i)
	}
	writeMRT(out, 1, peers)
	random := rand.New(rand.NewPCG(57555, 0))
	for _, family := range []struct {
		excerpt string
		subtype uint16
		n       int
		prefix  func(i int) []byte
	}{
		{"routeviews-20140523-ipv4.mrt.bz2", 2, four, func(i int) []byte { return []byte{24, byte(1 + i>>16), byte(i >> 8), byte(i)} }},
		{"routeviews-20151101-ipv6.mrt.bz2", 4, six, func(i int) []byte { return []byte{48, 0x20, 1, byte(i >> 16), byte(i >> 8), byte(i), 0} }},
	} {
		templates, err := ixTemplates(family.excerpt)
		if err != nil {
			return err
		}
		for i := range family.n {
			template := templates[i/6%len(templates)]
			body := append([]byte{0, 0, 0, 0}, family.prefix(i)...)
			count := len(body)
			body = append(body, 0, 0)
			for port := range ixPorts {
				if random.IntN(20) == 0 {
					continue
				}
				attrs := withOrigin(template[port], uint32(4_200_000_000+i/6))
				body = append(body, 0, byte(port), 0, 0, 0, 0, byte(len(attrs)>>8), byte(len(attrs)))
				body = append(body, attrs...)
				body[count+1]++
			}
			writeMRT(out, family.subtype, body)
		}
	}
	return out.Flush()
}

func writeMRT(out *bufio.Writer, subtype uint16, body []byte) {
	head := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 0, 0, 13, byte(subtype >> 8), byte(subtype)}, uint32(len(body)))
	_, _ = out.Write(head)
	_, _ = out.Write(body) // Flush returns the error
}

// withOrigin returns a copy of attributes with another last AS number.
func withOrigin(attrs []byte, as uint32) []byte {
	attrs = bytes.Clone(attrs)
	if path, ok := wire.Attrs(attrs).Get(wire.AttrASPath); ok && len(path) >= 6 {
		binary.BigEndian.PutUint32(path[len(path)-4:], as)
	}
	return attrs
}
