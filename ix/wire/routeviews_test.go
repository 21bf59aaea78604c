// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"compress/bzip2"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"testing"
)

// routeviews returns the decompressed form of an excerpt.
func routeviews(t testing.TB, name string) []byte {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	plain, err := io.ReadAll(bzip2.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

var excerpts = []struct {
	name    string
	records int
}{{"routeviews-20140523-ipv4.mrt.bz2", 201}, {"routeviews-20151101-ipv6.mrt.bz2", 151}}

// Real tables of routers: every route equals the oracle's.
func TestTablesOfRouteViewsEqualTheOracle(t *testing.T) {
	for _, e := range excerpts {
		packed, err := os.ReadFile("testdata/" + e.name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(bytes.NewReader(packed), Options{})
		if err != nil {
			t.Fatal(err)
		}
		plain := routeviews(t, e.name)
		for offset := 0; offset < len(plain); {
			length := 12 + int(binary.BigEndian.Uint32(plain[offset+8:]))
			rib := plain[offset : offset+length]
			if offset += length; rib[7] == ribPeers {
				continue
			}
			want, err := oracleTable(rib)
			if err != nil {
				t.Fatal(err)
			}
			var have []string
			for range want {
				var route Route
				if err := r.Next(&route); err != nil {
					t.Fatal(err)
				}
				have = append(have, tableText(&route))
				if hop, peer := route.View.NextHop, r.Peers()[route.Peer].Addr; !hop.IsValid() || hop.Is4() != peer.Is4() || route.View.long {
					t.Fatalf("%s: %v has the next hop %v", e.name, route.Prefix, hop)
				}
			}
			if !slices.EqualFunc(have, want, sameRoute) {
				t.Fatalf("%s: record %d\nhave %q\nwant %q", e.name, r.Records(), have, want)
			}
		}
		if err := r.Next(&Route{}); err != io.EOF || r.Records() != e.records {
			t.Errorf("%s: %v after %d records", e.name, err, r.Records())
		}
		if n, fault := r.Malformed(); n != 0 || len(r.Peers()) < 20 {
			t.Errorf("%s: %d peers, %d malformed: %v", e.name, len(r.Peers()), n, fault)
		}
	}
}

// A compressed file cut anywhere is a fault, and Partial returns the routes before it.
func TestTruncatedFilesOfRouteViews(t *testing.T) {
	packed, err := os.ReadFile("testdata/" + excerpts[0].name)
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []int{20, len(packed) / 2, len(packed) - 1} {
		r, err := NewReader(bytes.NewReader(packed[:length]), Options{Partial: true})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for err == nil {
			err = r.Next(&Route{})
			n++
		}
		if err != io.EOF || r.Fault() == nil {
			t.Errorf("%d bytes: %v, fault %v", length, err, r.Fault())
		}
	}
}

func BenchmarkReader(b *testing.B) {
	plain := routeviews(b, excerpts[0].name)
	b.ReportAllocs()
	b.SetBytes(int64(len(plain)))
	routes := 0
	for b.Loop() {
		r, err := NewReader(bytes.NewReader(plain), Options{})
		var route Route
		for err == nil {
			if err = r.Next(&route); err == nil {
				routes++
			}
		}
		if err != io.EOF {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(routes)/b.Elapsed().Seconds(), "routes/s")
}

func BenchmarkUpdate(b *testing.B) {
	body := updates()["all attributes"]
	var u Update
	stored := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if err := u.Parse(body, Coding{AS4: true}); err != nil {
			b.Fatal(err)
		}
		stored = u.AppendAnnounced(stored[:0])
	}
}
