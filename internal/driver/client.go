package driver

import "reflect"

// Missing reports whether rdb is nil, or its client is nil or a nil pointer.
func Missing(rdb Redis) bool {
	if rdb == nil {
		return true
	}
	v := reflect.ValueOf(rdb.Client())
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Same reports whether a and b have the same client. It returns false for clients that cannot be
// compared.
func Same(a, b Redis) bool {
	return reflect.ValueOf(a.Client()).Comparable() && reflect.ValueOf(b.Client()).Comparable() && a.Client() == b.Client()
}
