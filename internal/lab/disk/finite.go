package disk

import (
	"fmt"
	"math"
	"reflect"
	"time"
)

// notFinite returns where a value contains a float that JSON cannot represent, such as
// "Line.Interval.High"; empty if there is none. encoding/json only reports that there is one.
func notFinite(v any) string { return findnotFinite(reflect.ValueOf(v), "") }

func findnotFinite(v reflect.Value, at string) string {
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return at
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return findnotFinite(v.Elem(), at)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return ""
		}
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if at != "" {
				name = at + "." + name
			}
			if where := findnotFinite(v.Field(i), name); where != "" {
				return where
			}
		}
	case reflect.Slice, reflect.Array:
		return findInList(v, at)
	case reflect.Map:
		for key, value := range v.Seq2() {
			if where := findnotFinite(value, fmt.Sprintf("%s[%v]", at, key)); where != "" {
				return where
			}
		}
	}
	return ""
}

// findInList skips lists of whole numbers, such as counters.
func findInList(v reflect.Value, at string) string {
	if k := v.Type().Elem().Kind(); k >= reflect.Bool && k <= reflect.Uint64 {
		return ""
	}
	for i := range v.Len() {
		if where := findnotFinite(v.Index(i), fmt.Sprintf("%s[%d]", at, i)); where != "" {
			return where
		}
	}
	return ""
}
