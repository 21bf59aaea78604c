// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/kernel/testutil"
)

// writeCapture writes a pcap file (draft-ietf-opsawg-pcap) of Ethernet frames.
func writeCapture(t *testing.T, frames [][]byte) string {
	t.Helper()
	file := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	file = append(file, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0)
	for i, octets := range frames {
		for _, field := range []uint32{1, uint32(i), uint32(len(octets)), uint32(len(octets))} {
			file = binary.LittleEndian.AppendUint32(file, field)
		}
		file = append(file, octets...)
	}
	path := filepath.Join(t.TempDir(), "frames.pcap")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTsharkHasNoWarnings(t *testing.T) {
	tshark := testutil.Command(t, "tshark")
	var frames [][]byte
	for _, s := range kinds() {
		template, err := Build(s, s.Sizes[0].Size)
		if err != nil {
			t.Fatal(err)
		}
		for n := range uint64(3) {
			frames = append(frames, template.Fill(make([]byte, MaxSize), n, uint64(time.Now().UnixNano()), false))
		}
	}
	output, err := exec.Command(tshark, "-r", writeCapture(t, frames), "-V", "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	text := string(output)
	if good := strings.Count(text, "[Checksum Status: Good]"); good != len(frames) {
		t.Errorf("%d good UDP checksums in %d frames", good, len(frames))
	}
	for _, bad := range []string{"Malformed", "Expert Info", "incorrect", "Checksum Status: Bad", "Unreassembled", "Bogus"} {
		if at := strings.Index(text, bad); at >= 0 {
			t.Errorf("tshark says %q: %s", bad, text[max(0, at-300):min(len(text), at+100)])
		}
	}
}
