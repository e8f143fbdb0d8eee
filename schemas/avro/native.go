package avro

import (
	"fmt"
	"reflect"

	"github.com/onceward/onceward/schemas"
)

// Union returns v as the given branch of a union: the name of a primitive type or
// the full name of a record, enum or fixed. The null branch is plain nil.
func Union(branch string, v any) any { return map[string]any{branch: v} }

// Optional returns what a union of null and branch holds: v if it is present,
// and otherwise null.
func Optional[V any](branch string, v V, present bool) any {
	if !present {
		return nil
	}
	return Union(branch, v)
}

// Field returns a field of a record that Decode hands to a conversion function. It
// fails if the record has no such field or if it is not a V; the error is a
// schemas.Reason with the name and the types.
func Field[V any](record map[string]any, name string) (V, error) {
	v, ok := record[name].(V)
	if !ok {
		return v, fieldError(record, name, reflect.TypeFor[V]().String())
	}
	return v, nil
}

// OptionalField returns a field whose type is a union of null and branch, and
// whether it is not null. It fails like [Field].
func OptionalField[V any](record map[string]any, name, branch string) (v V, present bool, err error) {
	union, ok := record[name]
	if ok && union == nil {
		return v, false, nil
	}
	if branches, ok := union.(map[string]any); ok {
		if v, ok = branches[branch].(V); ok {
			return v, true, nil
		}
	}
	return v, false, fieldError(record, name, "union of null and "+branch)
}

func fieldError(record map[string]any, name, want string) error {
	if got, ok := record[name]; ok {
		return schemas.Reason(fmt.Sprintf("field %s: want %s, got %T", name, want, got))
	}
	return schemas.Reason(fmt.Sprintf("record has no field %s", name))
}
