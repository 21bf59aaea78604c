package selector

import (
	"fmt"
	"net/netip"

	"weir/internal/match"
	"weir/policy"
)

// prefix is where the remote address lies.
var prefix = Kind{
	SelectorKind: policy.SelectorKind{
		Key: "prefix", Doc: "Remote IPv4 or IPv6 prefix; of several scopes the longest match counts.", Sample: "",
		Parse: func(text string) (string, string, error) {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return "", "", fmt.Errorf("%q is no prefix: write it as in 10.0.0.0/8 or 2001:db8::/32", text)
			}
			if prefix != prefix.Masked() {
				return "", "", fmt.Errorf("%q has bits behind its length: write %s, or all of the address for one host", text, prefix.Masked())
			}
			canonical := match.OfPrefix(prefix).Prefix.String()
			return canonical, "remote prefix " + canonical, nil
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
