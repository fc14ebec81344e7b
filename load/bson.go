package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Document is a BSON document (bsonspec.org, version 1.1) to be sent: fields in
// order, since a command's name is its first field's.
type Document []Field

// Field is a name and its value: a string, bool, int32, int64, float64,
// Document, or []Document (an array of them).
type Field struct {
	Name  string
	Value any
}

// The element types that are read or written; readDocument passes over the rest.
const (
	bsonDouble   = 0x01
	bsonString   = 0x02
	bsonDocument = 0x03
	bsonArray    = 0x04
	bsonBool     = 0x08
	bsonInt32    = 0x10
	bsonInt64    = 0x12
)

// bsonWidths are the sizes of the types that have a fixed one.
var bsonWidths = map[byte]int{
	bsonDouble: 8, 0x07: 12, bsonBool: 1, 0x09: 8, 0x0a: 0, bsonInt32: 4, 0x11: 8, bsonInt64: 8,
	0x13: 16, 0xff: 0, 0x7f: 0,
}

// appendDocument appends a document's bytes. A value of any other type than
// Field tells is an error of the caller's.
func appendDocument(b []byte, d Document) ([]byte, error) {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	for _, f := range d {
		kind := len(b)
		b = append(b, 0)
		b = append(append(b, f.Name...), 0)
		var err error
		switch v := f.Value.(type) {
		case string:
			b[kind] = bsonString
			b = binary.LittleEndian.AppendUint32(b, uint32(len(v)+1))
			b = append(append(b, v...), 0)
		case bool:
			b[kind] = bsonBool
			one := byte(0)
			if v {
				one = 1
			}
			b = append(b, one)
		case int32:
			b[kind] = bsonInt32
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		case int64:
			b[kind] = bsonInt64
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		case float64:
			b[kind] = bsonDouble
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		case Document:
			b[kind] = bsonDocument
			b, err = appendDocument(b, v)
		case []Document:
			b[kind] = bsonArray
			array := make(Document, len(v))
			for i, each := range v {
				array[i] = Field{fmt.Sprint(i), each}
			}
			b, err = appendDocument(b, array)
		default:
			err = fmt.Errorf("bson: field %s is a %T, which has no form", f.Name, v)
		}
		if err != nil {
			return nil, err
		}
	}
	b = append(b, 0)
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start))
	return b, nil
}

// errBSON says that bytes are no document.
var errBSON = errors.New("bson: not a document")

// maxDepth is how deep documents may lie in each other, as in MongoDB.
const maxDepth = 100

// readDocument reads a document that fills data, the values as Field has them;
// arrays are Documents, and types that Field does not know are nil.
func readDocument(data []byte) (Document, error) { return readNested(data, maxDepth) }

func readNested(data []byte, depth int) (Document, error) {
	if depth == 0 || len(data) < 5 || binary.LittleEndian.Uint32(data) != uint32(len(data)) || data[len(data)-1] != 0 {
		return nil, errBSON
	}
	var d Document
	rest := data[4 : len(data)-1]
	for len(rest) > 0 {
		kind := rest[0]
		name, after, ok := cutString(rest[1:])
		if !ok {
			return nil, errBSON
		}
		size, ok := valueSize(kind, after)
		if !ok || size < 0 || size > len(after) {
			return nil, errBSON
		}
		value, err := readValue(kind, after[:size], depth)
		if err != nil {
			return nil, err
		}
		d, rest = append(d, Field{name, value}), after[size:]
	}
	return d, nil
}

// cutString takes a string that ends in a zero byte.
func cutString(data []byte) (text string, rest []byte, ok bool) {
	for i, b := range data {
		if b == 0 {
			return string(data[:i]), data[i+1:], true
		}
	}
	return "", nil, false
}

// valueSize is the length of a value that data begins with.
func valueSize(kind byte, data []byte) (size int, ok bool) {
	if width, fixed := bsonWidths[kind]; fixed {
		return width, true
	}
	if kind == 0x0b { // a regular expression: two strings
		_, rest, _ := cutString(data)
		_, rest, ok = cutString(rest)
		return len(data) - len(rest), ok
	}
	if len(data) < 4 {
		return 0, false
	}
	length := int(int32(binary.LittleEndian.Uint32(data)))
	switch kind {
	case bsonString, 0x0d, 0x0e: // text, code, symbol: the length leaves itself out
		return 4 + length, length >= 1
	case bsonDocument, bsonArray, 0x0f: // and code with scope: the length holds itself
		return length, length >= 5
	case 0x05: // binary, with its subtype
		return 5 + length, length >= 0
	}
	return 0, false
}

func readValue(kind byte, data []byte, depth int) (any, error) {
	switch kind {
	case bsonDouble:
		return math.Float64frombits(binary.LittleEndian.Uint64(data)), nil
	case bsonString:
		if data[len(data)-1] != 0 {
			return nil, errBSON
		}
		return string(data[4 : len(data)-1]), nil
	case bsonDocument, bsonArray:
		return readNested(data, depth-1)
	case bsonBool:
		return data[0] != 0, nil
	case bsonInt32:
		return int32(binary.LittleEndian.Uint32(data)), nil
	case bsonInt64:
		return int64(binary.LittleEndian.Uint64(data)), nil
	}
	return nil, nil
}

// Lookup gives the value at a path of names, where arrays have "0", "1" and so
// on; nil where there is none.
func (d Document) Lookup(path ...string) any {
	for _, f := range d {
		if f.Name != path[0] {
			continue
		}
		if len(path) == 1 {
			return f.Value
		}
		inner, _ := f.Value.(Document)
		return inner.Lookup(path[1:]...)
	}
	return nil
}

// Number gives a number at a path, whatever its type; ok is false where there
// is none.
func (d Document) Number(path ...string) (number float64, ok bool) {
	switch v := d.Lookup(path...).(type) {
	case int32:
		return float64(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
