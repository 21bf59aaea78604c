// SPDX-License-Identifier: Apache-2.0

package pcapng_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"weir/kernel/testutil"
	"weir/lab/link/pcapng"
)

var at = time.Date(2026, 11, 23, 12, 0, 0, 123456789, time.UTC)

func trace() []byte {
	t := pcapng.Header(nil, "weir", 64, "path forward", "path reverse")
	t = pcapng.Frame(t, 0, at.UnixNano(), 1514, bytes.Repeat([]byte{1}, 64), "")
	t = pcapng.Frame(t, 1, at.UnixNano()+1, 61, bytes.Repeat([]byte{2}, 61), "lost by the link")
	return pcapng.Statistics(t, 0, at.UnixNano()+2, 7)
}

func TestAnotherReaderUnderstands(t *testing.T) {
	r, err := pcapgo.NewNgReader(bytes.NewReader(trace()), pcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ octets, kept, number int }{{1514, 64, 0}, {61, 61, 1}} {
		content, info, err := r.ReadPacketData()
		if err != nil {
			t.Fatal(err)
		}
		if info.Length != want.octets || len(content) != want.kept || info.InterfaceIndex != want.number || !info.Timestamp.Equal(at.Add(time.Duration(i))) {
			t.Errorf("frame %d: %+v with %d bytes", i, info, len(content))
		}
	}
	if _, _, err := r.ReadPacketData(); err == nil {
		t.Error("there is a third frame")
	}
	if in, err := r.Interface(1); err != nil || in.Name != "path reverse" || in.SnapLength != 64 {
		t.Errorf("interface 1: %+v, %v", in, err)
	}
	if in, err := r.Interface(0); err != nil || in.Statistics.PacketsDropped != 7 {
		t.Errorf("statistics: %+v, %v", in.Statistics, err)
	}
}

func TestTsharkShowsComments(t *testing.T) {
	testutil.Command(t, "tshark")
	file := filepath.Join(t.TempDir(), "trace.pcapng")
	if err := os.WriteFile(file, trace(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("tshark", "-n", "-r", file, "-T", "fields", "-e", "frame.interface_name", "-e", "frame.len", "-e", "frame.comment").Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := "path forward\t1514\t\npath reverse\t61\tlost by the link\n"; string(out) != want {
		t.Errorf("tshark says\n%s\nwant\n%s", out, want)
	}
}

func TestAFrameAllocatesNothing(t *testing.T) {
	memory, content := make([]byte, 0, 1024), make([]byte, 128)
	if n := testing.AllocsPerRun(100, func() { pcapng.Frame(memory, 0, 1, 1514, content, "lost by the link") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for length := range 130 {
		for _, comment := range []string{"", "x", strings.Repeat("y", 50)} {
			if n := len(pcapng.Frame(nil, 0, 1, 1514, content[:min(length, 128)], comment)) - min(length, 128) - len(comment); n > pcapng.Overhead {
				t.Fatalf("%d bytes and a comment of %d take %d bytes more", length, len(comment), n)
			}
		}
	}
}
