// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/packet/mrt"
)

var mutations = flag.Int("mutations", 20_000, "number of mutated messages per test that compares with the oracle")

// mutate changes a few places of a message: bits, bytes, lengths, cuts, repetitions.
func mutate(random *rand.Rand, message []byte) []byte {
	b := slices.Clone(message)
	for range 1 + random.IntN(3) {
		if len(b) == 0 {
			return b
		}
		at := random.IntN(len(b))
		switch random.IntN(8) {
		case 0, 1:
			b[at] ^= 1 << random.IntN(8)
		case 2:
			b[at] = byte(random.Uint32())
		case 3:
			b[at] += byte(random.IntN(3)) - 1
		case 4:
			b = b[:at]
		case 5:
			end := min(len(b), at+1+random.IntN(12))
			b = slices.Delete(b, at, end)
		case 6:
			end := min(len(b), at+1+random.IntN(40))
			b = slices.Insert(b, at, slices.Clone(b[at:end])...)
		case 7:
			b = slices.Insert(b, at, byte(random.Uint32()), byte(random.Uint32()))
		}
	}
	return b
}

func codingOf(bits byte) Coding {
	return Coding{AS4: bits&1 == 0, AddPathIPv4: bits&2 != 0, AddPathIPv6: bits&4 != 0}
}

// differs compares the decoders. Only messages that both accept count.
func differs(body []byte, c Coding) (text string, accepted bool) {
	have, ok, err := decode(body, c)
	if !ok {
		if err != nil && err.Error() == "" {
			return "an error without text", false
		}
		return "", false
	}
	want, err := oracleDecode(body, c)
	if err != nil {
		return "", false
	}
	// gobgp keeps AS numbers of two bytes; stored paths merge them.
	if c.AS4 && !have.equal(want) || !c.AS4 && !slices.Equal(have.announced, want.announced) {
		return fmt.Sprintf("coding %+v\nbody %x\nhave %v\nwant %v", c, body, have, want), true
	}
	return "", true
}

func TestMutatedUpdatesEqualTheOracle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	all := updates()
	names := slices.Sorted(maps.Keys(all))
	accepted := 0
	for range *mutations {
		body := mutate(random, all[names[random.IntN(len(names))]])
		bits := byte(0)
		if random.IntN(4) == 0 {
			bits = byte(random.IntN(8))
		}
		text, both := differs(body, codingOf(bits))
		if text != "" {
			t.Fatal(text)
		}
		if both {
			accepted++
		}
	}
	t.Logf("%d of %d accepted by both", accepted, *mutations)
}

func FuzzUpdate(f *testing.F) {
	for _, body := range updates() {
		for _, bits := range []byte{0, 1, 6} {
			f.Add(body, bits)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, bits byte) {
		if text, _ := differs(body, codingOf(bits)); text != "" {
			t.Fatal(text)
		}
	})
}

// tableRoutes reads RIB records after a peer table. It stops at a fault.
func tableRoutes(records []byte) (all []string, malformed int, err error) {
	r := &Reader{source: bufio.NewReaderSize(bytes.NewReader(append(peerTable(), records...)), 512)}
	for route, err := range r.All {
		if err != nil {
			return all, 0, err
		}
		all = append(all, tableText(route))
	}
	n, _ := r.Malformed()
	return all, n, nil
}

func tableText(route *Route) string {
	return fmt.Sprint(route.Prefix, " ", route.Peer, " ", route.Time, " ", route.PathID, " ", viewText(route.View, nil))
}

// anyHop matches a next hop.
var anyHop = regexp.MustCompile(`hop [0-9a-f:.]+ `)

// sameRoute compares routes as text. gobgp does not find the next hop of an MP_REACH_NLRI that is
// not shortened.
func sameRoute(have, want string) bool {
	return have == want || strings.Contains(want, "hop invalid IP ") && anyHop.ReplaceAllString(have, "hop invalid IP ") == want
}

// oracleTable decodes one RIB record by gobgp.
func oracleTable(rib []byte) (all []string, err error) {
	header, err := mrt.ParseHeader(rib[:mrt.MRT_COMMON_HEADER_LEN])
	if err != nil {
		return nil, err
	}
	message, err := mrt.ParseBody(rib[mrt.MRT_COMMON_HEADER_LEN:], header)
	if err != nil {
		return nil, err
	}
	body, is := message.Body.(*mrt.Rib)
	if !is {
		return nil, io.ErrUnexpectedEOF
	}
	for _, e := range body.Entries {
		reach := slices.ContainsFunc(e.PathAttributes, func(a bgp.PathAttributeInterface) bool {
			return a.GetType() == bgp.BGP_ATTR_TYPE_MP_REACH_NLRI
		})
		prefix, err := netip.ParsePrefix(body.Prefix.String())
		if err != nil {
			return nil, err
		}
		all = append(all, fmt.Sprint(prefix.Masked(), " ", e.PeerIndex, " ", e.OriginatedTime, " ", e.PathIdentifier, " ", oracleAttrs(e.PathAttributes, reach)))
	}
	return all, nil
}

// ribs are sound RIB records.
func ribs() [][]byte {
	reach := slices.Concat(originIGP, somePath4, attr(0x80, AttrMPReach, sixHop[3:20]...))
	optional := slices.Concat(somePath, attr(0x80, AttrMED, 0, 0, 0, 9), attr(0xc0, AttrCommunities, 0xff, 0xff, 0, 0), attr(0xc0, AttrLargeCommunities, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3))
	return [][]byte{
		rib(ribIPv4, []byte{23, 192, 0, 3}, ribEntry(0, 0, somePath), ribEntry(1, 0, optional)),
		rib(ribIPv6, sixPrefix, ribEntry(1, 0, reach), ribEntry(0, 0, reach)),
		rib(ribIPv4AddPath, []byte{0}, ribEntry(1, 7, somePath), ribEntry(1, 8, optional)),
		rib(ribIPv6AddPath, sixPrefix, ribEntry(1, 7, reach)),
	}
}

// tableDiffers compares the decoders of one RIB record with a right length field.
func tableDiffers(rib []byte) (text string, accepted bool) {
	have, malformed, err := tableRoutes(rib)
	if err != nil || malformed > 0 {
		return "", false
	}
	want, err := oracleTable(rib)
	if err != nil {
		return "", false
	}
	if !slices.EqualFunc(have, want, sameRoute) {
		return fmt.Sprintf("record %s\nhave %q\nwant %q", hex.EncodeToString(rib), have, want), true
	}
	return "", true
}

func TestMutatedTablesEqualTheOracle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	all, accepted := ribs(), 0
	for range *mutations {
		base := all[random.IntN(len(all))]
		kind := uint16(base[7])
		changed := record(mrtTableDumpV2, kind, mutate(random, base[12:])...)
		text, both := tableDiffers(changed)
		if text != "" {
			t.Fatal(text)
		}
		if both {
			accepted++
		}
	}
	t.Logf("%d of %d accepted by both", accepted, *mutations)
}

func FuzzTable(f *testing.F) {
	for _, r := range ribs() {
		f.Add(r[12:], r[7])
	}
	f.Fuzz(func(t *testing.T, body []byte, subtype byte) {
		subtype = []byte{ribIPv4, ribIPv6, ribIPv4AddPath, ribIPv6AddPath}[subtype%4]
		if text, _ := tableDiffers(record(mrtTableDumpV2, uint16(subtype), body...)); text != "" {
			t.Fatal(text)
		}
	})
}

// FuzzReader reads any file: no panic, no endless loop, and faults within the file.
func FuzzReader(f *testing.F) {
	f.Add(sampleTable())
	f.Add(bgp4mp(16, 4, true, message(TypeUpdate, updates()["both"])))
	f.Add(bgp4mp(17, 9, true, message(TypeUpdate, updates()["IPv6"])))
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, partial := range []bool{false, true} {
			r, err := NewReader(bytes.NewReader(file), Options{Partial: partial})
			for err == nil {
				err = r.Next(&Route{})
			}
			if fault, is := err.(*Error); is && (fault.Error() == "" || fault.Offset < 0 || fault.Records < 0) {
				t.Fatalf("%+v", fault)
			} else if !is && err != io.EOF {
				t.Fatal(err)
			}
		}
	})
}
