// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"weir/internal/fault"
	"weir/tester/replay"
)

// trace writes a capture of n frames that differ, a millisecond apart.
func trace(t *testing.T, n int) string {
	t.Helper()
	var file bytes.Buffer
	w, err := pcapgo.NewNgWriter(&file, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		octets := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, byte(i + 1)}, make([]byte, 45)...) // an EtherType for experiments
		info := gopacket.CaptureInfo{Timestamp: time.Unix(1, 0).Add(time.Duration(i) * time.Millisecond), CaptureLength: len(octets), Length: len(octets)}
		if err := w.WritePacket(info, octets); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "trace.pcapng")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTesterReplaySaysWhatBecameOfACapture(t *testing.T) {
	p := newPath(t)
	status, stdout, stderr := commands.Call(t, "tester", "replay", trace(t, 20), "--from", p.left, "--to", p.right, "--loops", "2", "--speed", "2", "--format", "json")
	if status != fault.OK {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	var r replay.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if r.Format != replay.FormatResult || r.Sent != 40 || r.Arrived.Frames != 40 || r.Arrived.Missing+r.Arrived.Reordered != 0 || r.Span != 39*time.Millisecond/2 {
		t.Errorf("%s", stdout)
	}
}

func TestTesterReplayRefusesWhatItCannotSend(t *testing.T) {
	name := trace(t, 1)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no capture"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{name},
		{name, "--from", "tg0", "--to", "tg0"},
		{name, "--from", "tg0", "--speed", "0"},
		{name, "--from", "tg0", "--speed", "NaN"},
		{name, "--from", "tg0", "--loops", "0"},
		{name, "--from", "tg0", "--source-mac", "1.2"},
		{name, "--from", "tg0", "--address", "10.0.0.1=2001:db8::1"},
		{text, "--from", "tg0"},
		{name + "x", "--from", "tg0"},
	} {
		if status, stdout, stderr := commands.Call(t, append([]string{"tester", "replay"}, args...)...); status != fault.Usage {
			t.Errorf("%v: status %d: %s%s", args, status, stdout, stderr)
		}
	}
}
