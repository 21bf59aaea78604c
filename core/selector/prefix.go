// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"net/netip"

	"weir/core/match"
	"weir/core/policy"
)

// prefix matches traffic by remote address.
var prefix = Kind{
	SelectorKind: policy.SelectorKind{
		Key: "prefix", Doc: "Traffic to and from remote addresses in an IPv4 or IPv6 prefix. If several prefixes match, the longest applies.", Sample: "",
		Parse: func(text string) (string, string, error) {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return "", "", fmt.Errorf("%q is not a prefix: write it as in 10.0.0.0/8 or 2001:db8::/32", text)
			}
			canonical := match.OfPrefix(prefix).Prefix.String()
			return canonical, "remote prefix " + canonical, nil
		},
		Warn: func(text string) string {
			if prefix, err := netip.ParsePrefix(text); err == nil && prefix != prefix.Masked() {
				return fmt.Sprintf("%s has host bits and is read as %s: write that, or /%d for a single host", text, prefix.Masked(), prefix.Addr().BitLen())
			}
			return ""
		},
	},
	Bind: func(_ *Host, text string) (Binding, error) {
		prefix, err := netip.ParsePrefix(text)
		return Binding{Key: match.OfPrefix(prefix)}, err
	},
	Inside: func(_ *Host, text string) (Inside, string, error) {
		prefix, err := netip.ParsePrefix(text)
		return Inside{Remote: prefix, By: "the remote address"}, "", err
	},
}
