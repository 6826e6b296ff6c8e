package boltstore

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "billing.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// used is a file without the room behind it that no commit has used yet.
func used(file []byte) []byte {
	metas := readMetas(bytes.NewReader(file), int64(len(file)))
	m := newest(&metas)
	return file[:int(m.high)*int(m.page)]
}
