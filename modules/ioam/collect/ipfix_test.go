// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/kernel/testutil"
)

// tshark reads the messages: the template, and a record per hop.
func TestMessagesAreReadByTshark(t *testing.T) {
	tshark := testutil.Command(t, "tshark")
	listener, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	x, err := NewIPFIX(listener.LocalAddr().String(), 7)
	if err != nil {
		t.Fatal(err)
	}
	const packets = 20
	for i := range uint32(packets) {
		x.Add(recordOf(t, uint16(100+i), 1_700_000_000+i))
	}
	if err := x.Close(); err != nil || x.Lost != 0 {
		t.Fatal(err, x.Lost)
	}
	file := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	file = append(file, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0) // raw IP
	for records := 0; records < 3*packets; {
		message := make([]byte, 2000)
		if err := listener.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, _, err := listener.ReadFrom(message)
		if err != nil {
			t.Fatal(err)
		}
		if n > ipfixMax {
			t.Errorf("a message of %d octets", n)
		}
		if got := binary.BigEndian.Uint32(message[8:]); got != uint32(records) {
			t.Errorf("sequence %d, want %d", got, records)
		}
		records += strings.Count(string(message[:n]), "\x01\x00\x00\x5a") // sets of 90 octets
		ip := []byte{0x45, 0, byte((28 + n) >> 8), byte(28 + n), 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1, 0x12, 0x83, 0x12, 0x83, byte((8 + n) >> 8), byte(8 + n), 0, 0}
		file = append(file, make([]byte, 8)...)
		file = binary.LittleEndian.AppendUint32(file, uint32(len(ip)+n))
		file = binary.LittleEndian.AppendUint32(file, uint32(len(ip)+n))
		file = append(append(file, ip...), message[:n]...)
	}
	name := filepath.Join(t.TempDir(), "ipfix.pcap")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tshark, "-r", name, "-d", "udp.port==4739,cflow", "-V").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text := string(out)
	for want, n := range map[string]int{"SrcAddr: 2001:db8::1": 3 * packets, "Observation Point Id: 2": packets, "SrcPort: 119": 3, "Octets: 1000": 3 * packets,
		"InputInt: 30": packets, "Malformed": 0, "Nov 14, 2023": 6 * packets} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("tshark says %q %d times, want %d", want, got, n)
		}
	}
	if t.Failed() {
		t.Log(text[:min(len(text), 3000)])
	}
}
