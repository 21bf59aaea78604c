// SPDX-License-Identifier: Apache-2.0

package tcpinfo

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sample is a TCP_INFO made by hand, each field at its offset in linux/tcp.h.
func sample(length int) []byte {
	b := make([]byte, 512)
	b[0], b[1] = 1, Recovery // tcpi_state, tcpi_ca_state
	b[6], b[7] = 0x97, 1     // tcpi_snd_wscale 7 and tcpi_rcv_wscale 9, tcpi_delivery_rate_app_limited
	put32 := func(offset int, v uint32) { binary.NativeEndian.PutUint32(b[offset:], v) }
	put32(68, 20_000)                                 // tcpi_rtt, µs
	put32(72, 500)                                    // tcpi_rttvar
	put32(76, 0x7fffffff)                             // tcpi_snd_ssthresh
	put32(80, 42)                                     // tcpi_snd_cwnd
	put32(100, 7)                                     // tcpi_total_retrans
	put32(148, 19_000)                                // tcpi_min_rtt
	put32(156, 1234)                                  // tcpi_data_segs_out
	put32(196, 99)                                    // tcpi_delivered_ce
	binary.NativeEndian.PutUint64(b[104:], 1_000_000) // tcpi_pacing_rate
	binary.NativeEndian.PutUint64(b[120:], 5_000_000) // tcpi_bytes_acked
	binary.NativeEndian.PutUint64(b[160:], 2_000_000) // tcpi_delivery_rate
	binary.NativeEndian.PutUint64(b[208:], 10_000)    // tcpi_bytes_retrans
	binary.NativeEndian.PutUint16(b[242:], 3)         // tcpi_total_rto_recoveries
	return b[:length]
}

func TestParseByLength(t *testing.T) {
	for _, c := range []struct {
		kernel                  string
		length                  int
		ce, retransmitted, rtos bool
	}{
		{"3.10", 104, false, false, false},
		{"4.9", 160, false, false, false},
		{"4.18", 200, true, false, false},
		{"4.19", 224, true, true, false},
		{"6.7", 248, true, true, true},
		{"later", 512, true, true, true},
	} {
		info, err := Parse(sample(c.length))
		if err != nil {
			t.Fatalf("%s: %v", c.kernel, err)
		}
		if info.SRTT() != 20*time.Millisecond || info.RTTVar() != 500*time.Microsecond || info.Snd_cwnd != 42 ||
			info.Snd_ssthresh != 0x7fffffff || info.Total_retrans != 7 || !info.Lossy() || info.WScale != 0x97 || info.AppLimited != 1 {
			t.Errorf("%s: %+v", c.kernel, info)
		}
		if info.Has(DeliveredCE) != c.ce || info.Has(BytesRetrans) != c.retransmitted || info.Has(RTORecoveries) != c.rtos {
			t.Errorf("%s: has %v %v %v", c.kernel, info.Has(DeliveredCE), info.Has(BytesRetrans), info.Has(RTORecoveries))
		}
		if info.Delivered_ce != given(c.ce, 99) || info.Bytes_retrans != uint64(given(c.retransmitted, 10_000)) ||
			uint32(info.Total_rto_recoveries) != given(c.rtos, 3) {
			t.Errorf("%s: a field that is not there is not zero, or one that is has another value: %+v", c.kernel, info)
		}
		if c.length >= 168 && (info.Pacing_rate != 1_000_000 || info.Bytes_acked != 5_000_000 || info.Delivery_rate != 2_000_000 ||
			info.MinRTT() != 19*time.Millisecond || info.Data_segs_out != 1234) {
			t.Errorf("%s: %+v", c.kernel, info)
		}
	}
}

func given(has bool, v uint32) uint32 {
	if has {
		return v
	}
	return 0
}

func TestParseRefusesShortAnswers(t *testing.T) {
	if _, err := Parse(sample(minimum - 1)); err == nil {
		t.Error("a short structure is taken")
	}
}

func TestNoMinimumYetIsZero(t *testing.T) {
	b := sample(Size)
	binary.NativeEndian.PutUint32(b[148:], ^uint32(0))
	if info, err := Parse(b); err != nil || info.MinRTT() != 0 {
		t.Errorf("%s, %v", info.MinRTT(), err)
	}
}

func TestReadAsksTheKernel(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info Info
	if outer := raw.Control(func(fd uintptr) { info, err = Read(int(fd)) }); outer != nil || err != nil {
		t.Fatal(outer, err)
	}
	if info.State != unix.BPF_TCP_ESTABLISHED || info.Snd_cwnd == 0 || !info.Has(DeliveredCE) {
		t.Errorf("%+v", info)
	}
	if _, err := Read(-1); err == nil {
		t.Error("no error for a closed descriptor")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample(Size))
	f.Add(sample(minimum))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		info, err := Parse(b)
		if (err == nil) != (len(b) >= minimum) {
			t.Errorf("%d octets: %v", len(b), err)
		}
		if err != nil && info != (Info{}) {
			t.Errorf("an error with %+v", info)
		}
	})
}
