// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// decoded is the routes of an UPDATE and the attributes of its announced ones, as text.
type decoded struct {
	withdrawn, unreach, announced, reach []string
	attrs, reachAttrs                    string
}

func (d decoded) String() string { return fmt.Sprintf("%q", d.list()) }

func (d decoded) list() []string {
	return slices.Concat([]string{"withdrawn"}, d.withdrawn, []string{"unreach"}, d.unreach, []string{"announced"}, d.announced,
		[]string{"reach"}, d.reach, []string{d.attrs, d.reachAttrs})
}

func (d decoded) equal(e decoded) bool { return slices.Equal(d.list(), e.list()) }

// decode decodes an UPDATE by this package. ok is false if it is rejected or treated as withdrawn.
func decode(body []byte, c Coding) (d decoded, ok bool, err error) {
	u, err := ParseUpdate(body, c)
	if err != nil || u.Fault != nil {
		return d, false, err
	}
	list := func(n NLRI) (all []string) {
		for {
			prefix, id, ok := n.Next()
			if !ok {
				return all
			}
			all = append(all, fmt.Sprint(prefix, " ", id))
		}
	}
	d.withdrawn, d.unreach, d.announced, d.reach = list(u.Withdrawn), list(u.Unreach), list(u.Announced), list(u.Reach)
	// An error here is a fault of this package: ParseUpdate has accepted the attributes.
	if len(d.announced) > 0 {
		view, err := u.AppendAnnounced(nil).View()
		d.attrs = viewText(view, err)
	}
	if len(d.reach) > 0 {
		view, err := u.AppendReach(nil).View()
		d.reachAttrs = viewText(view, err)
	}
	return d, true, nil
}

func viewText(v View, err error) string {
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprint("origin ", v.Origin, " hop ", v.NextHop, " med ", v.HasMED, v.MED, " pref ", v.HasLocalPref, v.LocalPref, " path")
	for p := v.ASPath; ; {
		kind, ases, rest, ok := p.segment()
		if !ok {
			break
		}
		text += fmt.Sprint(" ", kind)
		for ; len(ases) > 0; ases = ases[4:] {
			text += fmt.Sprint(",", binary.BigEndian.Uint32(ases))
		}
		p = rest
	}
	text += " communities"
	for c := range v.Communities.All {
		text += fmt.Sprint(" ", uint32(c))
	}
	text += " large"
	for c := range v.LargeCommunities.All {
		text += fmt.Sprint(" ", c)
	}
	return text
}

// oracleDecode decodes an UPDATE by gobgp. err is its error of any kind.
func oracleDecode(body []byte, c Coding) (d decoded, err error) {
	options := &bgp.MarshallingOption{Use2ByteAS: !c.AS4, AddPath: map[bgp.Family]bgp.BGPAddPathMode{}}
	if c.AddPathIPv4 {
		options.AddPath[bgp.RF_IPv4_UC] = bgp.BGP_ADD_PATH_BOTH
	}
	if c.AddPathIPv6 {
		options.AddPath[bgp.RF_IPv6_UC] = bgp.BGP_ADD_PATH_BOTH
	}
	u := &bgp.BGPUpdate{}
	if err := u.DecodeFromBytes(body, options); err != nil {
		return d, err
	}
	d.withdrawn, d.announced = oracleNLRI(u.WithdrawnRoutes), oracleNLRI(u.NLRI)
	for _, attr := range u.PathAttributes {
		switch attr := attr.(type) {
		case *bgp.PathAttributeMpReachNLRI:
			if unicast(attr.AFI, attr.SAFI) {
				d.reach = oracleNLRI(attr.Value)
			}
		case *bgp.PathAttributeMpUnreachNLRI:
			if unicast(attr.AFI, attr.SAFI) {
				d.unreach = oracleNLRI(attr.Value)
			}
		}
	}
	if len(d.announced) > 0 {
		d.attrs = oracleAttrs(u.PathAttributes, false)
	}
	if len(d.reach) > 0 {
		d.reachAttrs = oracleAttrs(u.PathAttributes, true)
	}
	return d, nil
}

func unicast(afi uint16, safi uint8) bool { return Family{afi, safi}.addrSize() != 0 }

func oracleNLRI(nlri []bgp.PathNLRI) (all []string) {
	for _, n := range nlri {
		all = append(all, fmt.Sprint(n.NLRI.(*bgp.IPAddrPrefix).Prefix.Masked(), " ", n.ID))
	}
	return all
}

// oracleAttrs prints gobgp's attributes like viewText; the first of a type counts.
func oracleAttrs(attrs []bgp.PathAttributeInterface, reach bool) string {
	origin, hop, path, communities, large := uint8(OriginIncomplete), netip.Addr{}, "", "", ""
	var med, pref uint32
	hasMED, hasPref := false, false
	seen := map[bgp.BGPAttrType]bool{}
	for _, attr := range attrs {
		if seen[attr.GetType()] {
			continue
		}
		seen[attr.GetType()] = true
		switch attr := attr.(type) {
		case *bgp.PathAttributeOrigin:
			origin = attr.Value
		case *bgp.PathAttributeNextHop:
			if !reach {
				hop = attr.Value
			}
		case *bgp.PathAttributeMpReachNLRI:
			if reach {
				hop = attr.Nexthop
			}
		case *bgp.PathAttributeMultiExitDisc:
			med, hasMED = attr.Value, true
		case *bgp.PathAttributeLocalPref:
			pref, hasPref = attr.Value, true
		case *bgp.PathAttributeAsPath:
			path = oraclePath(attr.Value)
		case *bgp.PathAttributeCommunities:
			for _, c := range attr.Value {
				communities += fmt.Sprint(" ", c)
			}
		case *bgp.PathAttributeLargeCommunities:
			for _, c := range attr.Values {
				large += fmt.Sprintf(" %d:%d:%d", c.ASN, c.LocalData1, c.LocalData2)
			}
		}
	}
	return fmt.Sprint("origin ", origin, " hop ", hop, " med ", hasMED, med, " pref ", hasPref, pref, " path") + path + " communities" + communities + " large" + large
}

func oraclePath(segments []bgp.AsPathParamInterface) string {
	var text strings.Builder
	for _, s := range segments {
		fmt.Fprint(&text, " ", s.GetType())
		for _, as := range s.GetAS() {
			fmt.Fprint(&text, ",", as)
		}
	}
	return text.String()
}
