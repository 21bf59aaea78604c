// SPDX-License-Identifier: Apache-2.0

package capture_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"weir/kernel/testutil"
	"weir/tester"
	"weir/tester/capture"
)

// datagram is a UDP frame with valid checksums.
func datagram(t *testing.T, payload string) []byte {
	t.Helper()
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: []byte{198, 18, 0, 1}, DstIP: []byte{198, 19, 0, 1}}
	udp := &layers.UDP{SrcPort: 49152, DstPort: 7}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	buffer := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		&layers.Ethernet{SrcMAC: []byte{2, 0, 0, 0, 0, 1}, DstMAC: []byte{2, 0, 0, 0, 0, 2}, EthernetType: layers.EthernetTypeIPv4},
		ip, udp, gopacket.Payload(payload))
	if err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestTsharkReadsFramesTimesPortsAndComments(t *testing.T) {
	tshark := testutil.Command(t, "tshark")
	first, second := datagram(t, "a stamped payload"), datagram(t, strings.Repeat("cut ", 100))
	var out bytes.Buffer
	err := capture.Write(&out, time.Unix(1_700_000_000, 0), map[string][]tester.CapturedFrame{
		"right:tg1": {{At: 1500 * time.Millisecond, Stream: 3, Sequence: 41, Reason: "gap", Length: len(first), Data: first}},
		"left:tg0":  {{At: 123456789, Stream: 4, Sequence: 7, Reason: "context", Length: len(second), Data: second[:96]}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "errors.pcapng")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(tshark, "-r", path, "-T", "fields", "-E", "separator=;", "-e", "frame.time_epoch", "-e", "frame.interface_name",
		"-e", "frame.len", "-e", "frame.cap_len", "-e", "frame.comment", "-e", "udp.dstport").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "1700000000.123456789;left:tg0;442;96;stream 4, sequence number 7: context;7\n" +
		"1700000001.500000000;right:tg1;60;60;stream 3, sequence number 41: gap;7\n"
	if string(text) != want {
		t.Errorf("tshark reads\n%swant\n%s", text, want)
	}
}

// gopacket's reader decompresses the file and finds frame, time and interface.
func TestACompressedCaptureReadsBack(t *testing.T) {
	data := datagram(t, "payload")
	var out bytes.Buffer
	err := capture.WriteCompressed(&out, time.Unix(1_700_000_000, 0), map[string][]tester.CapturedFrame{"tg1": {{At: 123456789, Reason: "gap", Length: len(data), Data: data}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := pcapgo.NewNgReader(bytes.NewReader(out.Bytes()), pcapgo.NgReaderOptions{})
	if err != nil || out.Bytes()[0] != 0x1f {
		t.Fatalf("%v, first octet %#x", err, out.Bytes()[0])
	}
	got, info, err := r.ReadPacketData()
	if err != nil || !bytes.Equal(got, data) || info.Timestamp.UnixNano() != 1_700_000_000_123_456_789 {
		t.Errorf("%d octets at %v, %v", len(got), info.Timestamp, err)
	}
	if in, err := r.Interface(0); err != nil || in.Name != "tg1" {
		t.Errorf("interface %+v, %v", in, err)
	}
}

func TestNothingCapturedIsAnError(t *testing.T) {
	if err := capture.Write(&bytes.Buffer{}, time.Time{}, nil); err == nil {
		t.Error("an empty capture was written")
	}
}
