// The losses as custom calls of XLA, on the CPU and on NVIDIA GPUs.
//
// A plan is what a loss computes: a circe_measure, and one like it for each stream of a GPU. XLA's programs name a plan by its
// number, and hand over buffers: x (n, d), then y and z, or the row numbers of a batch, and then, on the CPU, perhaps the weights of
// the rows (n) as float64. Results are the value, one float64, and where it is asked for the gradient, shaped as x.
//
// Built by _ffi.py against the installed jaxlib's headers and circe's. libcirce itself is opened at run time, where Python has
// loaded it. Calls come from XLA's own threads, without Python: one lock lets them in one by one, for they share a context.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "circe/circe.h"
#include "circe/cuda.h"
#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;

// ---- libcirce ----------------------------------------------------------------------------------------------------------

#define FUNCTIONS(X)                                                                                                          \
    X(circe_last_error) X(circe_context_options_init) X(circe_context_create)                                                 \
    X(circe_measure_create) X(circe_measure_like) X(circe_measure_destroy) X(circe_measure_set_mean)                          \
    X(circe_kernel_parse) X(circe_kernel_copy) X(circe_kernel_destroy) X(circe_kernel_n_free) X(circe_kernel_bind_median)     \
    X(circe_measure_set_kernel_x) X(circe_measure_bind_features) X(circe_measure_set_weights) X(circe_measure_points) X(circe_measure_evaluate)             \
    X(circe_cuda_open) X(circe_measure_to_cuda)

struct Library {
#define MEMBER(name) decltype(&::name) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

Library circe;
std::mutex one;  // call at a time
circe_context *context = nullptr;

struct Destroy {
    void operator()(circe_measure *measure) const { circe.circe_measure_destroy(measure); }
    void operator()(circe_kernel *kernel) const { circe.circe_kernel_destroy(kernel); }
};
using Measure = std::unique_ptr<circe_measure, Destroy>;
using Kernel = std::unique_ptr<circe_kernel, Destroy>;

// ---- plans -------------------------------------------------------------------------------------------------------------

struct Plan {
    Measure measure;
    Kernel x;  // where the width of x follows the batch; otherwise NULL
    const circe_features *features;
    std::map<circe_cuda *, Measure> there;  // on devices, made at the first call there
};

auto &plans = *new std::map<std::int64_t, std::unique_ptr<Plan>>;  // never destroyed: XLA's threads may outlive main()
std::int64_t last_plan = 0;

ffi::Error failure(circe_status status) {
    auto code = status == CIRCE_ERR_MEMORY        ? ffi::ErrorCode::kResourceExhausted
                : status == CIRCE_ERR_UNSUPPORTED ? ffi::ErrorCode::kUnimplemented
                                                  : ffi::ErrorCode::kInvalidArgument;
    return status == CIRCE_OK ? ffi::Error::Success() : ffi::Error(code, std::string("circe: ") + circe.circe_last_error());
}

Plan *find(std::int64_t number) {
    auto found = plans.find(number);
    return found == plans.end() ? nullptr : found->second.get();
}

ffi::Error gone() {
    return ffi::Error(ffi::ErrorCode::kFailedPrecondition,
                      "circe: the ConditionalMean of this compiled function is gone; trace it again with the one in use");
}

// ---- buffers -----------------------------------------------------------------------------------------------------------

template <typename Buffer>
circe_mat view(Buffer &&buffer) {
    auto shape = buffer.dimensions();
    std::int64_t rows = shape.size() > 0 ? shape[0] : 1, cols = shape.size() > 1 ? shape[1] : 1;
    circe_mat mat = {};
    mat.data = buffer.untyped_data();
    mat.rows = rows, mat.cols = cols, mat.ld = cols;
    mat.dtype = buffer.element_type() == ffi::DataType::F64 ? CIRCE_FLOAT64 : CIRCE_FLOAT32;
    return mat;
}

struct Results {
    double *value;
    circe_mat grad;
};

Results results_of(ffi::RemainingRets &results) {
    Results found = {};
    found.value = static_cast<double *>((*results.get<ffi::AnyBuffer>(0))->untyped_data());
    if (results.size() > 1) found.grad = view(**results.get<ffi::AnyBuffer>(1));
    return found;
}

// ---- calls -------------------------------------------------------------------------------------------------------------

// The weights of the rows of one call, where there are any.
circe_status weigh(circe_measure *measure, ffi::RemainingArgs &more, bool *nothing) {
    if (more.size() == 0) return CIRCE_OK;
    auto buffer = *more.get<ffi::AnyBuffer>(0);
    std::int64_t n = view(buffer).rows, positive = 0, zero = 0;
    const double *weights = static_cast<const double *>(buffer.untyped_data());
    for (std::int64_t i = 0; i < n; i++) {
        positive += weights[i] > 0.0;
        zero += weights[i] == 0.0;
    }
    *nothing = positive < 4;  // what the estimators need: the loss is 0
    return zero < n ? circe.circe_measure_set_weights(measure, weights, n) : CIRCE_OK;
}

void set_zero(Results &out, bool with_grad) {
    *out.value = 0.0;
    if (!with_grad) return;
    size_t size = out.grad.dtype == CIRCE_FLOAT64 ? 8 : 4;
    std::memset(out.grad.data, 0, static_cast<size_t>(out.grad.rows * out.grad.cols) * size);
}

// In host memory the width of x is the median heuristic of all pairs, as for arrays of NumPy.
circe_status follow(const Plan &plan, const circe_mat &x) {
    circe_kernel *copy = nullptr;
    if (plan.x == nullptr) return CIRCE_OK;
    circe_status status = circe.circe_kernel_copy(plan.x.get(), &copy);
    Kernel owner(copy);
    if (status == CIRCE_OK) status = circe.circe_kernel_bind_median(copy, &x);
    return status == CIRCE_OK ? circe.circe_measure_set_kernel_x(plan.measure.get(), copy) : status;
}

// What all calls have in common; `call` is (measure, value, gradient or nullptr) -> status.
template <typename Call>
ffi::Error on_cpu(std::int64_t number, const circe_mat &x, ffi::RemainingArgs &more, ffi::RemainingRets &results, Call call) {
    std::lock_guard<std::mutex> guard(one);
    Plan *plan = find(number);
    if (plan == nullptr) return gone();
    circe_measure *measure = plan->measure.get();
    Results out = results_of(results);
    bool nothing = false, with_grad = results.size() > 1;
    circe_status status = weigh(measure, more, &nothing);
    if (status == CIRCE_OK && !nothing) status = follow(*plan, x);
    if (status == CIRCE_OK && !nothing) return failure(call(measure, out.value, with_grad ? &out.grad : nullptr));
    circe.circe_measure_set_weights(measure, nullptr, 0);
    if (status == CIRCE_OK) set_zero(out, with_grad);
    return failure(status);
}

circe_status stream_of(int device, void *stream, circe_cuda **cuda) {
    static auto &streams = *new std::map<std::pair<int, void *>, circe_cuda *>;  // kept: their work may go on
    auto found = streams.find({device, stream});
    circe_status status = found == streams.end() ? circe.circe_cuda_open(context, device, stream, cuda) : CIRCE_OK;
    if (status != CIRCE_OK) return status;
    if (found == streams.end()) found = streams.emplace(std::make_pair(device, stream), *cuda).first;
    *cuda = found->second;
    return CIRCE_OK;
}

// The plan's measure on a device.
circe_status measure_on(Plan &plan, circe_cuda *cuda, circe_measure **measure) {
    Measure &kept = plan.there[cuda];
    if (kept == nullptr) {
        circe_measure *made = nullptr;
        circe_status status = circe.circe_measure_like(plan.measure.get(), &made);
        Measure owner(made);
        if (status == CIRCE_OK && plan.x != nullptr) status = circe.circe_measure_set_kernel_x(made, plan.x.get());
        if (status == CIRCE_OK && plan.features != nullptr) status = circe.circe_measure_bind_features(made, plan.features);
        if (status == CIRCE_OK) status = circe.circe_measure_to_cuda(made, cuda, 0, 0, 0);
        if (status != CIRCE_OK) return status;
        kept = std::move(owner);
    }
    *measure = kept.get();
    return CIRCE_OK;
}

// The same on a GPU: everything is queued on XLA's stream.
template <typename Call>
ffi::Error on_gpu(void *stream, std::int32_t device, std::int64_t number, ffi::RemainingArgs &more, ffi::RemainingRets &results,
                  Call call) {
    if (more.size() > 0)
        return ffi::Error(ffi::ErrorCode::kUnimplemented, "circe: a loss on a GPU takes no weights of rows; leave them out");
    std::lock_guard<std::mutex> guard(one);
    Plan *plan = find(number);
    circe_cuda *cuda = nullptr;
    circe_measure *measure = nullptr;
    if (plan == nullptr) return gone();
    Results out = results_of(results);
    circe_status status = stream_of(device, stream, &cuda);
    if (status == CIRCE_OK) status = measure_on(*plan, cuda, &measure);
    if (status == CIRCE_OK) status = call(measure, out.value, results.size() > 1 ? &out.grad : nullptr);
    return failure(status);
}

auto of_points(ffi::AnyBuffer x, ffi::AnyBuffer y, ffi::AnyBuffer z) {
    return [=](circe_measure *measure, double *value, circe_mat *grad) {
        circe_mat views[] = {view(x), view(y), view(z)};
        return circe.circe_measure_points(measure, &views[0], &views[1], &views[2], value, grad);
    };
}

auto of_rows(ffi::AnyBuffer x, ffi::Buffer<ffi::S64> index) {
    return [=](circe_measure *measure, double *value, circe_mat *grad) mutable {
        circe_mat at = view(x);
        return circe.circe_measure_evaluate(measure, index.typed_data(), at.rows, &at, value, grad);
    };
}

ffi::Error points(std::int64_t number, ffi::AnyBuffer x, ffi::AnyBuffer y, ffi::AnyBuffer z, ffi::RemainingArgs more,
                  ffi::RemainingRets results) {
    return on_cpu(number, view(x), more, results, of_points(x, y, z));
}

ffi::Error rows(std::int64_t number, ffi::AnyBuffer x, ffi::Buffer<ffi::S64> index, ffi::RemainingArgs more,
                ffi::RemainingRets results) {
    return on_cpu(number, view(x), more, results, of_rows(x, index));
}

ffi::Error points_cuda(void *stream, std::int32_t device, std::int64_t number, ffi::AnyBuffer x, ffi::AnyBuffer y, ffi::AnyBuffer z,
                       ffi::RemainingArgs more, ffi::RemainingRets results) {
    return on_gpu(stream, device, number, more, results, of_points(x, y, z));
}

ffi::Error rows_cuda(void *stream, std::int32_t device, std::int64_t number, ffi::AnyBuffer x, ffi::Buffer<ffi::S64> index,
                     ffi::RemainingArgs more, ffi::RemainingRets results) {
    return on_gpu(stream, device, number, more, results, of_rows(x, index));
}

}  // namespace

// ---- what Python calls -------------------------------------------------------------------------------------------------

// NULL, or what is wrong.
extern "C" const char *circe_jax_open(const char *path, int threads) {
    static std::string text;
    std::lock_guard<std::mutex> guard(one);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return (text = dlerror()).c_str();
#define FIND(name)                                                                  \
    circe.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name));        \
    if (circe.name == nullptr) return (text = std::string("no ") + #name).c_str();
    FUNCTIONS(FIND)
#undef FIND
    circe_context_options options;
    circe.circe_context_options_init(&options);
    options.threads = threads;
    if (circe.circe_context_create(&options, &context) != CIRCE_OK) return (text = circe.circe_last_error()).c_str();
    return nullptr;
}

// Its number; 0: the library refuses it. The mean and the features must outlive the plan; NULL: none.
extern "C" std::int64_t circe_jax_plan(const circe_measure_options *options, const circe_cme *mean, const circe_features *features) {
    std::lock_guard<std::mutex> guard(one);
    circe_measure *made = nullptr;
    circe_kernel *x = nullptr;
    circe_status status = circe.circe_measure_create(context, options, &made);
    auto plan = std::make_unique<Plan>(Plan{Measure(made), nullptr, features, {}});
    if (status == CIRCE_OK && options->kernel_x != nullptr) status = circe.circe_kernel_parse(context, options->kernel_x, &x);
    plan->x.reset(x);
    if (x != nullptr && circe.circe_kernel_n_free(x) == 0) plan->x.reset();
    if (status == CIRCE_OK && mean != nullptr) status = circe.circe_measure_set_mean(made, mean);
    if (status == CIRCE_OK && features != nullptr) status = circe.circe_measure_bind_features(made, features);
    if (status != CIRCE_OK) return 0;
    plans[++last_plan] = std::move(plan);
    return last_plan;
}

extern "C" void circe_jax_forget(std::int64_t number) {
    std::lock_guard<std::mutex> guard(one);
    plans.erase(number);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(circe_jax_points, points,
                              ffi::Ffi::Bind().Attr<std::int64_t>("plan").Arg<ffi::AnyBuffer>().Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(circe_jax_rows, rows,
                              ffi::Ffi::Bind().Attr<std::int64_t>("plan").Arg<ffi::AnyBuffer>().Arg<ffi::Buffer<ffi::S64>>()
                                  .RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(circe_jax_points_cuda, points_cuda,
                              ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void *>>().Ctx<ffi::DeviceOrdinal>()
                                  .Attr<std::int64_t>("plan").Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>().Arg<ffi::AnyBuffer>().RemainingArgs().RemainingRets());
XLA_FFI_DEFINE_HANDLER_SYMBOL(circe_jax_rows_cuda, rows_cuda,
                              ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void *>>().Ctx<ffi::DeviceOrdinal>()
                                  .Attr<std::int64_t>("plan").Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::S64>>()
                                  .RemainingArgs().RemainingRets());
