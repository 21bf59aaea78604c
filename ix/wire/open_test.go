// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// openBody builds the body of an OPEN of AS 64501 with capabilities in one parameter.
func openBody(capabilities ...[]byte) []byte {
	c := slices.Concat(capabilities...)
	return slices.Concat([]byte{4, 0xfb, 0xf5, 0, 90, 10, 0, 0, 1, byte(len(c) + 2), 2, byte(len(c))}, c)
}

func capability(code byte, value ...byte) []byte {
	return append([]byte{code, byte(len(value))}, value...)
}

// opens are OPENs with the capabilities that BIRD, FRR, OpenBGPD and GoBGP send.
func opens() []Open {
	id := netip.MustParseAddr("10.0.0.1")
	return []Open{
		{AS: 64501, ID: id},
		{AS: 64501, ID: id, HoldTime: 90, Families: []Family{IPv4Unicast, IPv6Unicast}, RouteRefresh: true},
		{AS: 4200000000, ID: id, HoldTime: 65535, Families: []Family{IPv6Unicast, {25, 70}}, RouteRefresh: true, EnhancedRefresh: true, ExtendedMessages: true, AS4: true,
			AddPath:         []AddPath{{IPv4Unicast, false, true}, {IPv6Unicast, true, true}},
			PathsLimits:     []PathsLimit{{IPv4Unicast, 3}, {IPv6Unicast, 65535}},
			GracefulRestart: &GracefulRestart{Restarted: true, Notification: true, Time: 300, Families: []GracefulFamily{{IPv4Unicast, true}, {IPv6Unicast, false}}}},
	}
}

func TestOpensAreReadBack(t *testing.T) {
	many := opens()[2]
	for afi := uint16(3); afi < 60; afi++ {
		many.Families = append(many.Families, Family{afi, 1})
	}
	for _, want := range append(opens(), many) {
		body := want.Append(nil)
		have, err := ParseOpen(body)
		if err != nil || !reflect.DeepEqual(have, want) {
			t.Errorf("%v\nhave %+v\nwant %+v\nbody %x", err, have, want, body)
		}
	}
}

// The limit of paths by the capability in all its forms.
func TestPathsLimits(t *testing.T) {
	addPath := capability(capAddPath, 0, 1, 1, 1)
	limit := func(values ...byte) []byte { return capability(capPathsLimit, values...) }
	for name, c := range map[string]struct {
		body    []byte
		want    uint16
		ignored int
	}{
		"absent":             {openBody(addPath), 8, 0},
		"smaller":            {openBody(addPath, limit(0, 1, 1, 0, 3)), 3, 0},
		"larger":             {openBody(addPath, limit(0, 1, 1, 0, 9)), 8, 0},
		"zero":               {openBody(addPath, limit(0, 1, 1, 0, 0)), 8, 0},
		"one":                {openBody(addPath, limit(0, 1, 1, 0, 1)), 1, 0},
		"65535":              {openBody(addPath, limit(0, 1, 1, 255, 255)), 8, 0},
		"other family":       {openBody(addPath, limit(0, 2, 1, 0, 1)), 8, 0},
		"last counts":        {openBody(addPath, limit(0, 1, 1, 0, 2, 0, 1, 1, 0, 5)), 5, 0},
		"two capabilities":   {openBody(addPath, limit(0, 1, 1, 0, 5), limit(0, 1, 1, 0, 2)), 2, 0},
		"empty":              {openBody(addPath, limit()), 8, 0},
		"wrong length":       {openBody(addPath, limit(0, 1, 1, 0)), 8, 1},
		"without add-path":   {openBody(limit(0, 1, 1, 0, 3)), 1, 0},
		"add-path to send":   {openBody(capability(capAddPath, 0, 1, 1, 2), limit(0, 1, 1, 0, 3)), 1, 0},
		"add-path elsewhere": {openBody(capability(capAddPath, 0, 2, 1, 3), limit(0, 1, 1, 0, 3)), 1, 0},
		"add-path mode 4":    {openBody(capability(capAddPath, 0, 1, 1, 4)), 1, 1},
	} {
		o, err := ParseOpen(c.body)
		if err != nil || o.Limit(IPv4Unicast, 8) != c.want || o.Ignored != c.ignored {
			t.Errorf("%s: %v, limit %d instead of %d, %d ignored", name, err, o.Limit(IPv4Unicast, 8), c.want, o.Ignored)
		}
	}
}

func TestFaultyOpens(t *testing.T) {
	change := func(at int, value byte) []byte {
		b := openBody(capability(capAS4, 0, 0, 0, 0))
		b[at] = value
		return b
	}
	for name, c := range map[string]struct {
		body    []byte
		subcode uint8
		at      int
		want    string
	}{
		"short":      {[]byte{4, 0}, 0, 0, "too short"},
		"version":    {change(0, 3), openUnsupportedVersion, 0, "version 3"},
		"hold time":  {change(4, 2), openBadHoldTime, 3, "2 s"},
		"identifier": {slices.Concat([]byte{4, 0, 1, 0, 90}, make([]byte, 5)), openBadIdentifier, 5, "identifier"},
		"AS 0":       {openBody(capability(capAS4, 0, 0, 0, 0)), openBadPeerAS, 1, "AS number is 0"},
		"length":     {change(9, 7), openUnspecific, 9, "7 bytes in 8"},
		"parameter":  {change(10, 1), openUnsupportedOption, 10, "parameter 1"},
		"size":       {change(11, 9), openUnspecific, 10, "9 bytes exceeds"},
		"capability": {change(13, 9), openUnspecific, 12, "capability exceeds"},
		"cut":        {append(change(9, 9), 2), openUnspecific, 18, "cut off"},
		"extended":   {[]byte{4, 0, 1, 0, 90, 1, 2, 3, 4, 255, 255}, openUnspecific, 10, "extended length"},
	} {
		_, err := ParseOpen(c.body)
		var fault *MessageError
		if !errors.As(err, &fault) || fault.Code != codeOpen || fault.Subcode != c.subcode || fault.Offset != c.at || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v", name, err)
		}
	}
}

func openText(o Open) string {
	limits := map[Family]uint16{}
	for _, l := range o.PathsLimits {
		limits[l.Family] = l.Limit
	}
	restart := "none"
	if g := o.GracefulRestart; g != nil {
		restart = fmt.Sprint(*g)
	}
	return fmt.Sprint(o.AS, o.HoldTime, o.ID, o.Families, o.RouteRefresh, o.EnhancedRefresh, o.ExtendedMessages, o.AS4, o.AddPath, limits, restart)
}

// oracleOpen decodes an OPEN by gobgp. ok is false if it rejects the OPEN or a parameter.
func oracleOpen(body []byte) (o Open, ok bool) {
	var m bgp.BGPOpen
	if err := m.DecodeFromBytes(body); err != nil {
		return o, false
	}
	o = Open{AS: uint32(m.MyAS), HoldTime: m.HoldTime, ID: m.ID}
	for _, parameter := range m.OptParams {
		p, is := parameter.(*bgp.OptionParameterCapability)
		if !is {
			return o, false
		}
		for _, c := range p.Capability {
			oracleCapability(&o, c)
		}
	}
	return o, true
}

func oracleCapability(o *Open, c bgp.ParameterCapabilityInterface) {
	switch c := c.(type) {
	case *bgp.CapMultiProtocol:
		if f := (Family{c.CapValue.Afi(), uint8(c.CapValue.Safi())}); !slices.Contains(o.Families, f) {
			o.Families = append(o.Families, f)
		}
	case *bgp.CapRouteRefresh:
		o.RouteRefresh = true
	case *bgp.CapEnhancedRouteRefresh:
		o.EnhancedRefresh = true
	case *bgp.CapExtendedMessage:
		o.ExtendedMessages = true
	case *bgp.CapFourOctetASNumber:
		o.AS, o.AS4 = c.CapValue, true
	case *bgp.CapAddPath:
		for _, tuple := range c.Tuples {
			a := AddPath{Family{tuple.Family.Afi(), uint8(tuple.Family.Safi())}, tuple.Mode&2 != 0, tuple.Mode&1 != 0}
			o.AddPath = replace(o.AddPath, a, func(b AddPath) bool { return a.Family == b.Family })
		}
	case *bgp.CapGracefulRestart:
		g := &GracefulRestart{Restarted: c.Flags&8 != 0, Notification: c.Flags&4 != 0, Time: c.Time}
		for _, tuple := range c.Tuples {
			g.Families = append(g.Families, GracefulFamily{Family{tuple.AFI, tuple.SAFI}, tuple.Flags&0x80 != 0})
		}
		o.GracefulRestart = g
	case *bgp.CapUnknown:
		if c.CapCode == capPathsLimit {
			o.takePathsLimit(c.CapValue)
		}
	}
}

// openDiffers compares the decoders. Only OPENs that both accept without ignoring a part count.
func openDiffers(body []byte) (text string, accepted bool) {
	have, err := ParseOpen(body)
	if err != nil || have.Ignored > 0 || bytes.HasPrefix(body[min(10, len(body)):], []byte{255}) {
		return "", false
	}
	want, ok := oracleOpen(body)
	if !ok {
		return "", false
	}
	if openText(have) != openText(want) {
		return fmt.Sprintf("body %x\nhave %s\nwant %s", body, openText(have), openText(want)), true
	}
	return "", true
}

func TestMutatedOpensEqualTheOracle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var all [][]byte
	for _, o := range opens() {
		all = append(all, o.Append(nil))
	}
	accepted := 0
	for range *mutations {
		text, both := openDiffers(mutate(random, all[random.IntN(len(all))]))
		if text != "" {
			t.Fatal(text)
		}
		if both {
			accepted++
		}
	}
	t.Logf("%d of %d accepted by both", accepted, *mutations)
}

func FuzzOpen(f *testing.F) {
	for _, o := range opens() {
		f.Add(o.Append(nil))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if text, _ := openDiffers(body); text != "" {
			t.Fatal(text)
		}
		if o, err := ParseOpen(body); err == nil {
			_ = o.Append(nil)
		}
	})
}
