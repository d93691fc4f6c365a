// The structs of bindings/jax/xla_ffi.h are those of jaxlib's header. Only compiled: test_package.py does.
#include <cstddef>

#include "jax/xla_ffi.h"
#include "xla/ffi/api/c_api.h"

namespace xla = phasor::xla;

#define SAME(ours, our_member, theirs, their_member)                                 \
  static_assert(offsetof(xla::ours, our_member) == offsetof(theirs, their_member) && \
                    sizeof(xla::ours::our_member) == sizeof(theirs::their_member),   \
                #ours "::" #our_member " is not where jaxlib has " #theirs "::" #their_member)
#define SAME_SIZE(ours, theirs) static_assert(sizeof(xla::ours) == theirs##_STRUCT_SIZE, "the size of " #ours)
#define SAME_NUMBER(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))

static_assert(xla::kMajorVersion == XLA_FFI_API_MAJOR);

SAME(Extension, type, XLA_FFI_Extension_Base, type);
SAME(Extension, next, XLA_FFI_Extension_Base, next);
SAME(Version, major, XLA_FFI_Api_Version, major_version);
SAME(Version, minor, XLA_FFI_Api_Version, minor_version);
SAME(ErrorArguments, message, XLA_FFI_Error_Create_Args, message);
SAME(ErrorArguments, code, XLA_FFI_Error_Create_Args, errc);
SAME(Api, version, XLA_FFI_Api, api_version);
SAME(Api, create_error, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(Buffer, type, XLA_FFI_Buffer, dtype);
SAME(Buffer, data, XLA_FFI_Buffer, data);
SAME(Buffer, rank, XLA_FFI_Buffer, rank);
SAME(Buffer, shape, XLA_FFI_Buffer, dims);
SAME(Text, data, XLA_FFI_ByteSpan, ptr);
SAME(Text, size, XLA_FFI_ByteSpan, len);
SAME(Scalar, type, XLA_FFI_Scalar, dtype);
SAME(Scalar, value, XLA_FFI_Scalar, value);
SAME(Buffers, count, XLA_FFI_Args, size);
SAME(Buffers, types, XLA_FFI_Args, types);
SAME(Buffers, items, XLA_FFI_Args, args);
SAME(Buffers, count, XLA_FFI_Rets, size);
SAME(Buffers, items, XLA_FFI_Rets, rets);
SAME_SIZE(Buffers, XLA_FFI_Args);
SAME_SIZE(Buffers, XLA_FFI_Rets);
SAME(Attributes, count, XLA_FFI_Attrs, size);
SAME(Attributes, types, XLA_FFI_Attrs, types);
SAME(Attributes, names, XLA_FFI_Attrs, names);
SAME(Attributes, items, XLA_FFI_Attrs, attrs);
SAME_SIZE(Attributes, XLA_FFI_Attrs);
SAME(Call, extension, XLA_FFI_CallFrame, extension_start);
SAME(Call, api, XLA_FFI_CallFrame, api);
SAME(Call, stage, XLA_FFI_CallFrame, stage);
SAME(Call, arguments, XLA_FFI_CallFrame, args);
SAME(Call, results, XLA_FFI_CallFrame, rets);
SAME(Call, attributes, XLA_FFI_CallFrame, attrs);
SAME(Metadata, version, XLA_FFI_Metadata, api_version);
SAME(Metadata, traits, XLA_FFI_Metadata, traits);
SAME(MetadataExtension, metadata, XLA_FFI_Metadata_Extension, metadata);

SAME_NUMBER(xla::ExtensionType::metadata, XLA_FFI_Extension_Metadata);
SAME_NUMBER(xla::ErrorCode::invalid_argument, XLA_FFI_Error_Code_INVALID_ARGUMENT);
SAME_NUMBER(xla::ErrorCode::resource_exhausted, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED);
SAME_NUMBER(xla::ErrorCode::internal, XLA_FFI_Error_Code_INTERNAL);
SAME_NUMBER(xla::DataType::boolean, XLA_FFI_DataType_PRED);
SAME_NUMBER(xla::DataType::int32, XLA_FFI_DataType_S32);
SAME_NUMBER(xla::DataType::int64, XLA_FFI_DataType_S64);
SAME_NUMBER(xla::DataType::uint32, XLA_FFI_DataType_U32);
SAME_NUMBER(xla::DataType::float16, XLA_FFI_DataType_F16);
SAME_NUMBER(xla::DataType::float32, XLA_FFI_DataType_F32);
SAME_NUMBER(xla::DataType::float64, XLA_FFI_DataType_F64);
SAME_NUMBER(xla::DataType::bfloat16, XLA_FFI_DataType_BF16);
SAME_NUMBER(xla::AttributeType::scalar, XLA_FFI_AttrType_SCALAR);
SAME_NUMBER(xla::AttributeType::text, XLA_FFI_AttrType_STRING);
