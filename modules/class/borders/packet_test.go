// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/kernel/device"
	"weir/kernel/testutil"
)

const all = "  eth0:\n    from: {10.20.0.0/16: lbe, 10.20.7.0/24: keep, 10.20.7.9: premium, 2001:db8:20::/48: lbe, 2001:db8:20::53: keep}\n" +
	"    to: {192.0.2.0/24: AF21, 10.0.0.0/8: CS2, 2001:db8::/32: AF11, 2001:db8:20::/48: cs3}\n" +
	"    translate: {lbe: CS1, premium: AF41, AF41: 3}\n"

func border(t testing.TB, text string) *Treatment {
	t.Helper()
	p, err := parse(text)
	must(t, err)
	return p.Host[0].Treatment.(*Treatment)
}

// Random frames leave exactly as the oracle expects: both families, tags, options, fragments,
// truncated frames, other protocols.
func TestFramesAreAsTheOracleSays(t *testing.T) {
	testutil.NeedRoot(t)
	border := border(t, all)
	objects, err := border.load(14, nil)
	must(t, err)
	defer func() { _ = objects.Close() }()
	random := testutil.Rand(t)
	changed, refused := map[device.Hook]int{}, 0
	for range 20_000 {
		frame := randomFrame(random)
		for _, hook := range border.hooks() {
			got, err := through(objects.at(hook), frame)
			if errors.Is(err, unix.EINVAL) && len(frame) < 14+2*4+40 {
				refused++ // the kernel's test run requires a complete header
				continue
			}
			must(t, err)
			want := become(border, frame, 14, hook == device.Ingress)
			if !bytes.Equal(got, want) {
				t.Fatalf("%s of % x\nbecame % x\nwant   % x", hook, frame, got, want)
			}
			if !bytes.Equal(want, frame) {
				changed[hook]++
			}
		}
	}
	if changed[device.Ingress] < 1000 || changed[device.Egress] < 200 {
		t.Errorf("frames that were to change: %v; the test shows nothing", changed)
	}
	t.Logf("changed %v, refused by the test run %d", changed, refused)
}

// through sends a frame through a program that must let every frame pass.
func through(program *ebpf.Program, frame []byte) ([]byte, error) {
	run := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+64)}
	verdict, err := program.Run(run)
	if err == nil && int32(verdict) != -1 {
		err = errors.New("the program does not pass packets on")
	}
	return run.DataOut, err
}

var (
	addresses4 = []string{"10.20.0.1", "10.20.7.1", "10.20.7.9", "192.0.2.1", "198.51.100.1", "10.30.0.1"}
	addresses6 = []string{"2001:db8:20::1", "2001:db8:20::53", "2001:db8:1::1", "2001:db9::1", "::ffff:10.20.0.1"}
)

// randomFrame returns a random frame, most of them IP.
func randomFrame(random *rand.Rand) []byte {
	frame := make([]byte, 12, 256)
	fill(random, frame)
	frame[0] &^= 1
	for range random.IntN(4) {
		kind := []uint16{0x8100, 0x88a8}[random.IntN(2)]
		frame = binary.BigEndian.AppendUint16(frame, kind)
		frame = binary.BigEndian.AppendUint16(frame, uint16(random.Uint32()))
	}
	kind, packet := uint16(0x0800), random4(random)
	if random.IntN(2) == 0 {
		kind, packet = 0x86dd, random6(random)
	}
	if random.IntN(20) == 0 {
		kind = uint16(random.Uint32())
	}
	frame = append(binary.BigEndian.AppendUint16(frame, kind), packet...)
	if random.IntN(6) == 0 {
		frame = frame[:14+random.IntN(len(frame)-13)]
	}
	return frame
}

func random4(random *rand.Rand) []byte {
	words := 5 + random.IntN(11)
	b := make([]byte, words*4+random.IntN(40))
	fill(random, b)
	b[0] = byte(0x40 | words)
	if random.IntN(30) == 0 {
		b[0] = byte(random.Uint32())
	}
	b[1] = someTOS(random)
	copy(b[12:], netip.MustParseAddr(addresses4[random.IntN(len(addresses4))]).AsSlice())
	copy(b[16:], netip.MustParseAddr(addresses4[random.IntN(len(addresses4))]).AsSlice())
	if random.IntN(4) > 0 { // otherwise it stays wrong
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], ^onesComplement(b[:words*4]))
	}
	return b
}

func random6(random *rand.Rand) []byte {
	b := make([]byte, 40+random.IntN(60))
	fill(random, b)
	tos := someTOS(random)
	b[0], b[1] = 0x60|tos>>4, tos<<4|b[1]&15
	copy(b[8:], netip.MustParseAddr(addresses6[random.IntN(len(addresses6))]).AsSlice())
	copy(b[24:], netip.MustParseAddr(addresses6[random.IntN(len(addresses6))]).AsSlice())
	return b
}

// someTOS returns a DSCP with a meaning to the border, or any.
func someTOS(random *rand.Rand) byte {
	known := []byte{0, 1, 8, 46, 34, 3}
	if random.IntN(3) == 0 {
		return byte(random.Uint32())
	}
	return known[random.IntN(len(known))]<<2 | byte(random.IntN(4))
}

// fill fills a slice with random bytes.
func fill(random *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(random.Uint32())
	}
}
