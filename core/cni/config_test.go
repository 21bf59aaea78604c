// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"math/big"
	"strings"
	"testing"
	"time"
)

func TestQuantities(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "10M": 10_000_000, "1Gi": 1 << 30, "1.5G": 1_500_000_000, "1e7": 10_000_000, "1E3": 1000, "100k": 100_000, "64Ki": 65_536,
		"1500m": 2, "1m": 1, ".5k": 500, "+5": 5, "-0": 0, "1E": 1_000_000_000_000_000_000, "12345e-2": 124, "2.": 2,
	} {
		if got, err := ParseQuantity(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "is not a quantity", "10 M": "is not a quantity", "M": "is not a quantity", "10MB": `unknown suffix "MB"`, "10K": `unknown suffix "K"`,
		"-1": "is negative", "8Ei": "above 2^63-1", "1e99": "above 2^63-1", "1/2": "is not a quantity", "0x10": "is not a quantity", "1e1000000": "is not a quantity",
	} {
		if got, err := ParseQuantity(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d, %v, want an error with %q", text, got, err, want)
		}
	}
}

// FuzzParseQuantity compares with exact arithmetic on the text without its suffix.
func FuzzParseQuantity(f *testing.F) {
	for _, seed := range []string{"10M", "1Gi", "1.5G", "-2", "1e7", "1500m", "", "9223372036854775807", "9223372036854775808", "1e-99"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseQuantity(text)
		if err != nil || strings.ContainsAny(text, "kMGTPEimK") {
			return
		}
		plain, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%q: accepted", text)
		}
		// got - 1 < plain <= got
		above := new(big.Rat).SetInt(new(big.Int).SetUint64(got))
		below := new(big.Rat).Sub(above, big.NewRat(1, 1))
		if plain.Cmp(above) > 0 || plain.Cmp(below) <= 0 {
			t.Errorf("%q: %d", text, got)
		}
	})
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"cniVersion": "1.1.0", "name": "blue", "type": "weir", "mode": "shape", "ingressRate": "10M", "egressRate": 1000000}`))
	f.Add([]byte(`{"name": "blue", "runtimeConfig": {"bandwidth": {"ingressRate": 1000000, "ingressBurst": 1000}}, "cni.dev/valid-attachments": [{"containerID": "a", "ifname": "b"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig(text)
		if err == nil && (c.Mode != Shape && c.Mode != Police || c.Ingress.Burst < 0 || c.Egress.Burst < 0) {
			t.Errorf("%s: %+v", text, c)
		}
	})
}

// The limits of a runtime replace those of the file, as in the plugin bandwidth.
func TestLimitsOfTheRuntimeComeFirst(t *testing.T) {
	c, err := ParseConfig([]byte(`{"name": "blue", "ingressRate": "1M", "egressRate": "2M", "runtimeConfig": {"bandwidth": {"ingressRate": 8000000, "ingressBurst": 80000}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Rate{Key: "runtimeConfig.bandwidth.ingressRate", Bits: 8_000_000, Burst: 10 * time.Millisecond}); c.Ingress != want {
		t.Errorf("ingress %+v, want %+v", c.Ingress, want)
	}
	if c.Egress.Bits != 0 {
		t.Errorf("egress %+v", c.Egress)
	}
	if c, err = ParseConfig([]byte(`{"name": "blue", "ingressRate": "1M", "runtimeConfig": {}}`)); err != nil || c.Ingress.Bits != 1_000_000 {
		t.Errorf("%+v, %v", c, err)
	}
}

// Runtimes pass a burst of 2 Gbit and more for annotations without one.
func TestAHugeBurstIsNone(t *testing.T) {
	for _, burst := range []string{"2147483647", "4294967295", "34359738360"} {
		c, err := ParseConfig([]byte(`{"name": "blue", "ingressRate": "10M", "ingressBurst": ` + burst + `}`))
		if err != nil || c.Ingress.Burst != 0 {
			t.Errorf("%s: %+v, %v", burst, c.Ingress, err)
		}
	}
}

func TestObjectsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"K8S_POD_NAMESPACE=default;K8S_POD_NAME=web": "pod default/web", "": "container 0123456789ab", "K8S_POD_NAME": "container 0123456789ab",
	} {
		if got := nameOf(Attachment{ContainerID: "0123456789abcdef", Args: args}); got != want {
			t.Errorf("%q: %s, want %s", args, got, want)
		}
	}
}
