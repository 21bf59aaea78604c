// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
)

// suffixes are the multipliers of quantities, as powers of 10 or 2.
var suffixes = map[string]struct{ base, power int64 }{
	"": {10, 0}, "m": {10, -3}, "k": {10, 3}, "M": {10, 6}, "G": {10, 9}, "T": {10, 12}, "P": {10, 15}, "E": {10, 18},
	"Ki": {2, 10}, "Mi": {2, 20}, "Gi": {2, 30}, "Ti": {2, 40}, "Pi": {2, 50}, "Ei": {2, 60},
}

// quantityForm is a sign, a decimal number, and a suffix or an exponent of up to two digits.
var quantityForm = regexp.MustCompile(`^([+-]?)([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE]([+-]?[0-9]{1,2})|([A-Za-z]*))$`)

// ParseQuantity reads a Kubernetes quantity, such as 10M, 1Gi, 1.5G or 1e7, and rounds it up to an
// integer. A quantity below 0 or above 2^63-1 is an error.
func ParseQuantity(text string) (uint64, error) {
	parts := quantityForm.FindStringSubmatch(text)
	if parts == nil {
		return 0, fmt.Errorf("%q is not a quantity: write it as in 10M or 1Gi", text)
	}
	by, known := suffixes[parts[4]]
	if !known {
		return 0, fmt.Errorf("%q has the unknown suffix %q: write k, M, G, T, Ki, Mi, Gi or Ti", text, parts[4])
	}
	if parts[3] != "" {
		by.power, _ = strconv.ParseInt(parts[3], 10, 64)
	}
	number, ok := new(big.Rat).SetString(parts[2])
	if !ok {
		return 0, fmt.Errorf("%q is not a quantity: write it as in 10M or 1Gi", text)
	}
	factor := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(by.base), big.NewInt(max(by.power, -by.power)), nil))
	if by.power < 0 {
		factor.Inv(factor)
	}
	number.Mul(number, factor)
	if parts[1] == "-" && number.Sign() > 0 {
		return 0, fmt.Errorf("%q is negative", text)
	}
	whole, rest := new(big.Int).QuoRem(number.Num(), number.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() {
		return 0, fmt.Errorf("%q is above 2^63-1", text)
	}
	return whole.Uint64(), nil
}
