// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// sums are the SHA-256 sums of a bundle's files, by name, in lower-case hexadecimal.
type sums map[string]string

var errChanged = errors.New("its SHA-256 sum is not the one in " + SumsFile)

// write writes the sums as sha256sum does, so that `sha256sum -c SHA256SUMS` checks a bundle.
func (s sums) write(w io.Writer) error {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if _, err := fmt.Fprintf(w, "%s  %s\n", s[name], name); err != nil {
			return err
		}
	}
	return nil
}

// readSums parses the output of write. Other lines are an error.
func readSums(text []byte) (sums, error) {
	s := sums{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); ; {
		if !lines.Scan() {
			return s, lines.Err()
		}
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size || name == "" {
			return nil, fmt.Errorf("line %q is no SHA-256 sum and name", lines.Text())
		}
		s[name] = strings.ToLower(sum)
	}
}

// check compares a file's content with its sum. Parsers only get checked files.
func (s sums) check(name string, content []byte) error {
	have := sha256.Sum256(content)
	if s[name] != hex.EncodeToString(have[:]) {
		return errChanged
	}
	return nil
}
