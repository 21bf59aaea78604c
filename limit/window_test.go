package limit

import (
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"testing"
)

// At a low rate TCP must not send its usual super-packets: of half an unbounded window, or of 64 KiB on a short path. The
// window of one flow at 1 Mbit/s holds 8 full-sized packets for the mark threshold and a quarter more, so that
// super-packets have at most 5 or 6.
func TestSuperPacketsFitALowRate(t *testing.T) {
	client, server, address := path(t)
	var listener net.Listener
	err := server.Do(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(address, 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	received := make(chan bool)
	go func() {
		defer close(received)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}()
	p, process := limited(t, Limit{Rate: 1_000_000}, Limit{Rate: MaxRate})
	work := task{Namespace: client.Name, Network: "tcp", Address: listener.Addr().String(), Messages: 8, Size: 16 << 10}
	if err := json.NewEncoder(process.In).Encode(work); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Fatal(err)
	}
	<-received
	if c := counters(t, p, 0); c.Segments < 80 || c.Segments > 6*c.Packets {
		t.Errorf("%d segments in %d super-packets, want at most 6 in one", c.Segments, c.Packets)
	}
}
