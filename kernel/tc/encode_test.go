// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHandle(t *testing.T) {
	for want, handle := range map[string]Handle{
		"1:": MakeHandle(1, 0), "1:20": MakeHandle(1, 0x20), "ffff:": MakeHandle(0xffff, 0), "root": Root, "clsact": Clsact,
	} {
		if got := handle.String(); got != want {
			t.Errorf("%#x is written %q, want %q", uint32(handle), got, want)
		}
	}
}

func tableOf(d Distribution) (table []float64) {
	for b := delayTable(d); len(b) > 0; b = b[2:] {
		table = append(table, float64(int16(binary.NativeEndian.Uint16(b)))/tableScale)
	}
	return table
}

func TestDelayTablesHaveTheirMoments(t *testing.T) {
	for _, test := range []struct {
		distribution    Distribution
		mean, deviation float64
		lowest, highest float64
	}{
		{Normal, 0, 1, -3.67, 3.67},
		{Pareto, -0.033, 0.820, -2. / 3, 4}, // the moments of iproute2's pareto.dist
	} {
		table := tableOf(test.distribution)
		var sum, squares float64
		for _, value := range table {
			sum += value
			squares += value * value
		}
		mean := sum / float64(len(table))
		deviation := math.Sqrt(squares/float64(len(table)) - mean*mean)
		got := []float64{mean, deviation, table[0], table[len(table)-1]}
		for i, want := range []float64{test.mean, test.deviation, test.lowest, test.highest} {
			if math.Abs(got[i]-want) > .005 {
				t.Errorf("%s: mean, deviation, lowest, highest = %.4f, want %+v", test.distribution, got, test)
				break
			}
		}
	}
}

func TestDelayTablesAgreeWithIproute2(t *testing.T) {
	for _, distribution := range []Distribution{Normal, Pareto} {
		files, _ := filepath.Glob("/usr/lib/*/tc/" + string(distribution) + ".dist")
		if len(files) == 0 {
			t.Logf("iproute2's table %s is not installed here: its moments are compared in the test above", distribution)
			continue
		}
		content, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		var theirs []float64
		for line := range strings.Lines(string(content)) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			for _, word := range strings.Fields(line) {
				value, err := strconv.ParseFloat(word, 64)
				if err != nil {
					t.Fatal(err)
				}
				theirs = append(theirs, value/tableScale)
			}
		}
		ours := tableOf(distribution)
		if len(theirs) != len(ours) {
			t.Fatalf("%s: %d values, iproute2 has %d", distribution, len(ours), len(theirs))
		}
		// The outermost values depend on where in each step the distribution is sampled.
		for i := 40; i < len(ours)-40; i++ {
			if math.Abs(ours[i]-theirs[i]) > .02+.01*math.Abs(ours[i]) {
				t.Errorf("%s[%d] is %.4f, iproute2's %.4f", distribution, i, ours[i], theirs[i])
				break
			}
		}
	}
}

// message is a qdisc of device 7 as Linux 6.18 reports it.
func message() []byte {
	b := words(0, 7, uint32(MakeHandle(1, 0)), uint32(Root), 2)
	b = attribute(b, tcaKind, []byte("pfifo\x00"))
	stats := attribute(nil, statsBasic, append(long(15140), words(10)...))
	stats = attribute(stats, statsPkt64, long(1<<33))
	stats = attribute(stats, statsQueue, words(2, 3028, 4, 5, 6))
	return attribute(b, tcaStats2|nested, stats)
}

func TestDecodeQdisc(t *testing.T) {
	got, owner, err := decodeQdisc(message())
	want := Qdisc{
		Kind: "pfifo", Handle: MakeHandle(1, 0), Parent: Root, Bytes: 15140, Packets: 1 << 33,
		Queued: 2, Backlog: 3028, Drops: 4, Requeues: 5, Overlimits: 6,
	}
	if diff := cmp.Diff(want, got); diff != "" || owner != 7 || err != nil {
		t.Errorf("owner %d, %v (-want +got):\n%s", owner, err, diff)
	}
	short := attribute(words(0, 7, 0, 0, 0), tcaStats2, attribute(nil, statsQueue, words(1)))
	if _, _, err := decodeQdisc(short); !errors.Is(err, errShort) {
		t.Errorf("short statistics: %v", err)
	}
}

// TestMarksOfDisciplines: structures as linux/pkt_sched.h has them.
func TestMarksOfDisciplines(t *testing.T) {
	for _, c := range []struct {
		kind  string
		words []uint32
	}{
		{"codel", []uint32{1, 2, 3, 4, 5, 6, 77, 8, 9}},
		{"fq_codel", []uint32{0, 1, 2, 77, 4, 5, 6, 7, 8, 9}},
		{"pie", []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 77}},
		{"pie", []uint32{1, 2, 3, 4, 5, 6, 7, 77}}, // before Linux 5.6
	} {
		b := attribute(words(0, 7, 0, 0, 0), tcaKind, []byte(c.kind+"\x00"))
		b = attribute(b, tcaStats2, attribute(nil, statsApp, words(c.words...)))
		if got, _, err := decodeQdisc(b); err != nil || got.Marked != 77 {
			t.Errorf("%s of %d octets: %d marked, %v", c.kind, 4*len(c.words), got.Marked, err)
		}
	}
	for _, none := range []struct {
		kind  string
		words []uint32
	}{{"fq_codel", []uint32{1, 2, 3, 4, 5, 6}}, {"codel", []uint32{1, 2}}, {"cake", make([]uint32, 20)}, {"pie", nil}} {
		if n := marks(none.kind, words(none.words...)); n != 0 {
			t.Errorf("%s: %d marked in what does not tell", none.kind, n)
		}
	}
}

func FuzzDecodeQdisc(f *testing.F) {
	f.Add(message())
	f.Add(message()[:27])
	f.Add([]byte{})
	f.Add(attribute(words(0, 0, 0, 0, 0), tcaStats2, []byte{3, 0, 1, 0}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, err := decodeQdisc(b); err != nil && !errors.Is(err, errShort) {
			t.Errorf("unknown error %v", err)
		}
	})
}
