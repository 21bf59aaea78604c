// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"weir/kernel/sysctl"
	"weir/kernel/testutil"
	"weir/lab/link"
	"weir/lab/link/emulator"
	"weir/lab/link/loss"
	"weir/lab/link/rawsock"
)

// Every frame of a link is in its trace, and each lost frame has a comment.
func TestTracesHoldWhatBecameOfFrames(t *testing.T) {
	carrier, hosts := pair(t)
	must(t, sysctl.Set(hosts, "net.ipv6.conf.all.disable_ipv6", "1")) // so hosts send no frames of their own
	own := []link.Cable{{Name: "one", A: "end-a", B: "end-b", Forward: link.Direction{Loss: loss.Of(loss.EveryNth{Nth: 5})}}}
	carrying, err := emulator.New(emulator.Options{Spin: -1}).Carry(context.Background(), carrier, own)
	must(t, err)
	folder := t.TempDir()
	capturing := carrying.(link.Capturing)
	before, err := carrying.Status()
	must(t, err)
	must(t, capturing.Capture(folder, 60))
	if err := capturing.Capture(folder, 60); err == nil {
		t.Error("a second trace of the same frames is begun")
	}
	sender, err := rawsock.Open(hosts, "host-a", rawsock.None)
	must(t, err)
	defer func() { _ = sender.Close() }()
	begin := time.Now()
	frame := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, make([]byte, 86)...)
	const count = 5000 // more than one chunk
	for range count {
		must(t, sender.Send(t.Context(), frame))
	}
	testutil.Eventually(t, 10*time.Second, "all frames counted", func() bool {
		status, err := carrying.Status()
		must(t, err)
		return status[0].Forward.Received-before[0].Forward.Received >= count
	})
	status, err := carrying.Status()
	must(t, err)
	must(t, carrying.Close())
	frames, lost := read(t, filepath.Join(folder, "one.pcapng"), begin)
	dropped := int(status[0].Forward.LossDrops - before[0].Forward.LossDrops)
	missing := int(status[0].Forward.Uncaptured) // if the disk is too slow
	if frames+missing != count || dropped < count/5-1 || lost > dropped || lost < dropped-missing {
		t.Errorf("%d frames and %d lost ones in the trace, and %d are missing, of %d and %d", frames, lost, missing, count, dropped)
	}
}

func read(t *testing.T, path string, begin time.Time) (frames, lost int) {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer func() { _ = file.Close() }()
	r, err := pcapgo.NewNgReader(file, pcapgo.NgReaderOptions{})
	must(t, err)
	for {
		content, info, options, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return frames, lost
		}
		must(t, err)
		frames++
		if len(content) != 60 || info.Length != 100 || info.InterfaceIndex != 0 || info.Timestamp.Before(begin.Add(-time.Second)) || info.Timestamp.After(time.Now().Add(time.Second)) {
			t.Fatalf("frame %d: %+v with %d bytes", frames, info, len(content))
		}
		for _, comment := range options.Comments {
			if comment == "lost by the link" {
				lost++
			}
		}
	}
}
