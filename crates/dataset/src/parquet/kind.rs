//! What a schema says about a column's values.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::schema::types::Type;

use super::cell::Cell;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    List,
    Map,
    Object,
}

/// Old files have the converted type alone.
pub(super) fn of_group(group: &Type) -> Group {
    let info = group.get_basic_info();
    match (info.logical_type_ref(), info.converted_type()) {
        (Some(LogicalType::List), _) | (None, ConvertedType::LIST) => Group::List,
        (Some(LogicalType::Map), _) | (None, ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE) => {
            Group::Map
        }
        _ => Group::Object,
    }
}

/// How values are read, and what the type is called.
pub(super) fn of_values(leaf: &Type) -> (Cell, String) {
    let Type::PrimitiveType { physical_type, type_length, scale, precision, .. } = leaf else {
        return (Cell::Plain, String::new());
    };
    let info = leaf.get_basic_info();
    let said = info.logical_type_ref().cloned().or_else(|| older(info.converted_type()));
    let plain = |name: &str| (Cell::Plain, name.to_owned());
    let (is_int, is_bytes) = match physical_type {
        Physical::INT32 | Physical::INT64 => (true, false),
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => (false, true),
        _ => (false, false),
    };
    match (said, physical_type) {
        (Some(LogicalType::Unknown), _) => plain("null"),
        (Some(LogicalType::Decimal(of)), _) if is_int || is_bytes => {
            decimal(of.scale, of.precision)
        }
        _ if info.converted_type() == ConvertedType::DECIMAL && (is_int || is_bytes) => {
            decimal(*scale, *precision)
        }
        (Some(LogicalType::Integer(int)), _) if is_int => {
            let cell = if int.is_signed { Cell::Plain } else { Cell::Unsigned };
            let sign = if int.is_signed { "" } else { "u" };
            (cell, format!("{sign}int{}", int.bit_width))
        }
        (Some(LogicalType::Date), Physical::INT32) => (Cell::Date, "date".to_owned()),
        (Some(LogicalType::Time(time)), _) if is_int => {
            let (units, name) = unit(&time.unit);
            (Cell::Time(units), format!("time[{name}]"))
        }
        (Some(LogicalType::Timestamp(time)), Physical::INT64) => {
            let (units, name) = unit(&time.unit);
            let is_utc = time.is_adjusted_to_u_t_c;
            let zone = if is_utc { ", UTC" } else { "" };
            (Cell::Timestamp { units, is_utc }, format!("timestamp[{name}{zone}]"))
        }
        (Some(LogicalType::String | LogicalType::Enum), Physical::BYTE_ARRAY) => {
            (Cell::Text, "string".to_owned())
        }
        (Some(LogicalType::Json), Physical::BYTE_ARRAY) => (Cell::Text, "json".to_owned()),
        (Some(LogicalType::Uuid), _) if is_bytes => (Cell::Uuid, "uuid".to_owned()),
        (Some(LogicalType::Float16), _) if is_bytes => (Cell::Float16, "float16".to_owned()),
        _ if info.converted_type() == ConvertedType::INTERVAL && is_bytes => {
            (Cell::Interval, "interval".to_owned())
        }
        (_, Physical::BOOLEAN) => plain("bool"),
        (_, Physical::INT32) => plain("int32"),
        (_, Physical::INT64) => plain("int64"),
        // Nothing else is written with 96 bits.
        (_, Physical::INT96) => plain("timestamp[ns]"),
        (_, Physical::FLOAT) => plain("float32"),
        (_, Physical::DOUBLE) => plain("float64"),
        (_, Physical::BYTE_ARRAY) => plain("binary"),
        (_, Physical::FIXED_LEN_BYTE_ARRAY) => plain(&format!("binary[{type_length}]")),
    }
}

fn decimal(scale: i32, precision: i32) -> (Cell, String) {
    (
        Cell::Decimal(u32::try_from(scale).unwrap_or_default()),
        format!("decimal({precision}, {scale})"),
    )
}

/// Units of a second.
fn unit(unit: &TimeUnit) -> (i64, &'static str) {
    match unit {
        TimeUnit::MILLIS => (1000, "ms"),
        TimeUnit::MICROS => (1_000_000, "us"),
        TimeUnit::NANOS => (1_000_000_000, "ns"),
    }
}

/// What files said before there were logical types. Moments were in UTC then.
fn older(converted: ConvertedType) -> Option<LogicalType> {
    let int = |bits, is_signed| Some(LogicalType::integer(bits, is_signed));
    match converted {
        ConvertedType::UTF8 => Some(LogicalType::String),
        ConvertedType::ENUM => Some(LogicalType::Enum),
        ConvertedType::DATE => Some(LogicalType::Date),
        ConvertedType::TIME_MILLIS => Some(LogicalType::time(true, TimeUnit::MILLIS)),
        ConvertedType::TIME_MICROS => Some(LogicalType::time(true, TimeUnit::MICROS)),
        ConvertedType::TIMESTAMP_MILLIS => Some(LogicalType::timestamp(true, TimeUnit::MILLIS)),
        ConvertedType::TIMESTAMP_MICROS => Some(LogicalType::timestamp(true, TimeUnit::MICROS)),
        ConvertedType::UINT_8 => int(8, false),
        ConvertedType::UINT_16 => int(16, false),
        ConvertedType::UINT_32 => int(32, false),
        ConvertedType::UINT_64 => int(64, false),
        ConvertedType::INT_8 => int(8, true),
        ConvertedType::INT_16 => int(16, true),
        ConvertedType::INT_32 => int(32, true),
        ConvertedType::INT_64 => int(64, true),
        ConvertedType::JSON => Some(LogicalType::Json),
        ConvertedType::BSON => Some(LogicalType::Bson),
        _ => None,
    }
}
